/*
 * explore.h
 *		Visits every state that can be reached.  explore.c explains how.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdint.h>

typedef struct Result
{
	uint32_t states;
	int wrong;		/* FINE, or what is wrong with the nearest state that is not */
	uint32_t steps; /* how far that is */
} Result;

/*
 * Looks for a state with this wrong, or with any for FINE, and prints the trace that
 * leads there, each line after the prefix.
 */
extern Result explore(int wanted, const char *prefix);

#endif
