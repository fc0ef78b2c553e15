/*
 * ranges.c
 *		The ranges of positions that nodes own.
 */
#include "ranges.h"

bool
chash_ranges_next(const ChashRing *ring, ChashRangeCursor *cursor, ChashRange *range)
{
	uint32_t point = cursor->point;
	int64_t hi;

	if (cursor->done || ring->point_count == 0)
		return false;

	range->lo = point == 0 ? ring->lowest : chash_point_position(ring, point - 1) + 1;
	range->node = chash_point_owner(ring, point);

	/* Go on to the last point of the same owner, past points that lost a tie. */
	while (point < ring->point_count)
	{
		uint32_t first = point;

		hi = chash_point_position(ring, point);
		while (point < ring->point_count && chash_point_position(ring, point) == hi)
			point++;
		chash_work(&cursor->work, point - first);
		if (chash_point_owner(ring, point) != range->node)
		{
			range->hi = hi;
			cursor->point = point;
			cursor->done = hi == ring->highest;
			return true;
		}
	}

	/* Behind the last point the circle wraps to the owner of the first. */
	range->hi = ring->highest;
	cursor->done = true;
	return true;
}
