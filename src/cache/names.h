/*
 * names.h
 *		Names of nodes as texts that live as long as the backend.
 */
#ifndef CHASH_NAMES_H
#define CHASH_NAMES_H

#include "../compat.h"

extern void chash_lasting_names_init(void);

/* A name, given in UTF-8, as a text in the database's encoding: one for equal names. */
extern Datum chash_lasting_name(const char *utf8, size_t length);

#endif
