/*
 * json.h
 *		Changes and definitions of rings as jsonb.
 */
#ifndef CHASH_JSON_H
#define CHASH_JSON_H

#include "../compat.h"

#include "../store/definition.h"

/*
 * Reads changes, an object with a member per node: null removes it, an object
 * of weight, zone, info, tokens and state adds or changes it.  Raises an error
 * that says what is malformed.
 */
extern ChashChange *chash_changes_from_json(Jsonb *json, uint32 *count);

/* Raises the error for pins, which this version cannot make. */
pg_noreturn extern void chash_report_pins(void);

/* The whole definition of a ring, and the way back, with everything checked. */
extern Jsonb *chash_definition_to_json(const ChashDefinition *definition);
extern void chash_definition_from_json(Jsonb *json, const char *ring, ChashDefinition *definition);

#endif
