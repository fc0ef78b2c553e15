/*
 * model.h
 *		What rings should do, computed the slow and obvious way from the points,
 *		and checks of built rings against that.
 */
#ifndef MODEL_H
#define MODEL_H

#include "diff.h"
#include "partitions.h"
#include "ranges.h"
#include "replicas.h"
#include "ring.h"

/* Builds a ring; NULL if the spec is refused.  Free it with free(). */
extern ChashRing *build(const ChashSpec *spec);

/* The owner of a position, found by looking at every point. */
extern uint32_t model_owner(const ChashRing *ring, int64_t position);

/* The replica walk in rounds, literally. */
extern uint32_t model_replicas(const ChashRing *ring, int64_t position, uint32_t n, bool live,
							   uint32_t *nodes);

/* The difference of two rings; free its rows with free(). */
extern ChashDiffRows diff(const ChashRing *before, const ChashRing *after, uint32_t replicas);

/*
 * Check a ring, or the difference of two, at every boundary, one to either
 * side, and both ends of the circle.  They return NULL or say what is wrong.
 */
extern const char *check_ring(const ChashRing *ring);
extern const char *check_diff(const ChashRing *before, const ChashRing *after, uint32_t replicas);

#endif
