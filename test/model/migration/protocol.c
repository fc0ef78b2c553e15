/*
 * protocol.c
 *		The protocol that moves a range of live rows, written down as a model:
 *		a state, and every step that anybody can take from it.  explore.c takes
 *		them all; check.c says which casts must hold and which broken protocols
 *		must be caught.
 *
 * THE PROTOCOL.  Range R moves from A to B; on the way back from B to A, by the
 * same steps:
 *
 *	 1	claim		state `copying`, by a worker; free again when its session ends
 *	 2	close		the exclusive lock on R's slice, held by the session; bounded
 *	 3	drain		until no other transaction has a write lock on the table, neither on
 *					the source nor on the target; bounded
 *	 4	clear		delete R's rows on the target, with a snapshot taken after 3
 *	 5	copy		with a snapshot taken after 3, and commit
 *	 6	verify		(not in the model, which copies without error)
 *	 7	wait		until all transactions have ended that ran on the coordinator
 *					when the copy was committed; bounded
 *	 8	cut over	state `moved`, R belongs to the target; durable before 9
 *	 9	open		unlock
 *	10	wait		until all have ended that ran at the cutover
 *	11	clean		delete R's rows on the source; state `cleaned`
 *
 * Where a bounded step does not end, the mover gives way: in 2 and 3 it leaves the
 * state as it found it (what an earlier mover sent may still arrive on the target);
 * in 7 it clears the target, and the move is `pending` again.  `copying` is resumed
 * at 2, `moved` at 10.
 *
 * The way back begins when no live worker has the move, and in state `reverting`.
 * It first waits as in 10, since A must not be cleared under those who still read
 * there, and then goes from 2 to 11.  It is `pending` only after 11.  `reverting` is
 * resumed at its first wait, or after its cutover at 10.
 *
 * One thing may be done otherwise (SKIP_WAITING).  A writer that asks for the lock
 * while the range is copied is one of those that 7 waits for, and waits itself for
 * the mover, who must give way; where writers always ask, always.  7 may pass over
 * those that wait for the lock, if they get an error once they have it, and if their
 * whole transaction ends with that.
 *
 * WHO TAKES PART
 *
 *	Writer		writes through the coordinator, by foreign tables: one statement that
 *				inserts, updates, deletes, or gives a row another key.  It takes a
 *				snapshot of the ring, reads the row where that says, takes the lock,
 *				and writes where the lock says, on condition that the row is what it
 *				has read.  Earlier in its transaction it may have touched either
 *				shard, and may have written to other rows of the table on A.  Its
 *				snapshot of a shard is as old as the first touch.
 *	Direct		takes the lock on the coordinator, writes on its own connection to
 *				the shard, sees that its session on the coordinator is alive, commits
 *				on the shard, ends on the coordinator.
 *	Reader		a READ COMMITTED transaction of any number of statements through a
 *				view that filters each shard's rows by ownership, with the same
 *				snapshots of the shards.
 *	Movers		two, who take the move up again and again.
 *	Operator	reverts the move.
 *
 * CRASHES, as many as one likes.  Whoever has a session on the coordinator may lose
 * it at any time; the program of the direct writer may die; the coordinator may
 * crash, which ends all sessions.  Remote transactions commit one after the other
 * (postgres_fdw has no two-phase commit).  A COMMIT under way when its sender dies
 * takes effect at any later time, or never.
 *
 * A STATE is: the rows that are committed on each shard, who owns R, the state of
 * the move, each participant's place in its work with what it knows (snapshots it
 * has open, what it has written), COMMITs whose sender is gone; and for the checks,
 * the content that each key should have.
 *
 * WHAT MUST HOLD
 *
 *	-	While the slice is open, R's owner has exactly the rows that were committed
 *		by writers, each once.  All that a shard has committed counts, acknowledged
 *		or not: that is more than needed, since what is acknowledged is committed.
 *	-	When the move is cleaned, A has none of R's rows; when it is pending and no
 *		worker has it, B has none (no COMMIT being under way).
 *	-	A statement sees each key as the committed rows were when its snapshot of
 *		the shard was taken, or, if that was taken during the statement, at some
 *		time of the statement.
 *	-	A writer changes the row that it has read, and gets no error unless somebody
 *		else has changed it.
 *	-	From every state that can be reached, by whatever crashes, the migration can
 *		end without a further crash: cleaned, nobody in the way.  So there is no
 *		deadlock, and what was interrupted can be resumed.
 *
 * WHAT IS LEFT OUT, and why that is sound
 *
 *	-	Two keys stand for all, and a row has one of two contents: no step treats
 *		keys or contents differently, and what goes wrong goes wrong for one row (or
 *		for the two of a change of key).  An update turns one content into the
 *		other, so that one lost write shows.
 *	-	One range, one slice: a mover holds no second lock, and ranges never overlap.
 *		With a cast that is `apart` the second key lies in another slice and belongs
 *		to B, so that a change of key commits on two shards.
 *	-	Steps of one participant are one step where nobody else can tell them apart:
 *		a remote statement and the sending of its COMMIT (who dies between rolls
 *		back, as if it had not begun); the last remote COMMIT and the end of the
 *		transaction (which only holds the lock a moment longer).
 *	-	A remote transaction without COMMIT sent is gone when its session dies.  In
 *		truth it lasts a moment longer, and whoever waits for it waits so long.
 *	-	A remote COMMIT that fails is the death of its sender, since nobody knows
 *		whether it took effect: a mover begins again at 2, or at 10.
 *	-	The movers work through the coordinator.  One with connections of its own
 *		must see that its session is alive before each COMMIT, as the direct writer.
 *	-	The queue of the lock: a waiting mover does not keep new writers waiting here.
 *		So there are more interleavings, not fewer; and the mover's wait is bounded.
 *	-	A time limit may end a bounded wait at any moment.  That a migration can end
 *		does not say that it will: under steady load a mover may give way for ever.
 *	-	Snapshots of shards hold only what is compared later: the writer's row, and
 *		whether it was the right one.  Versions of a row with the same content are
 *		one: more writes succeed than in truth.
 *	-	Rows have no unique key for the mover, who copies them twice if he may; a
 *		writer's INSERT refuses a key that is there.
 *	-	Direct readers, for whom step 10 has a grace period: there is no time here.
 *	-	Shards do not crash.  What they have committed must be durable.
 *	-	At most two COMMITs have lost their sender at a time; a crash that would make
 *		a third has to wait.
 *	-	The two movers are alike: states that differ only by their exchange are one.
 *		So are the places for COMMITs whose sender is gone.
 */
#include "protocol.h"

#include <string.h>

const State state_width = {
	.row = {{2, 2}, {2, 2}},
	.late = {{1, 1, 1, {3, 3}}, {1, 1, 1, {3, 3}}},
	.route = 1,
	.move = 3,
	.w = {2, 3, 2, 1, 1, 4, 2, 1, {1, 1}, {2, 2}, {1, 1}, 1, {2, 2}, 1, 1},
	.d = {2, 3, 2, 1, 1, 1, 3, 1},
	.r = {1, 2, 1, {4, 4}, {1, 1}, {1, 1}},
	.m = {{4, 1, 1, 1, 1, 3, 1, {{3, 3}, {3, 3}}, {2, 2}},
		  {4, 1, 1, 1, 1, 3, 1, {{3, 3}, {3, 3}}, {2, 2}}},
	.reverts = 1,
	.truth = {2, 2},
	.wrong = 3,
};

Cast cast;
Variant variant;

static const char *const shard[] = {"A", "B"};
static const char *const verb[] = {"INSERT of", "UPDATE of", "DELETE of", "change of the key of"};

static int
other(int node)
{
	return 1 - node;
}

static bool
in_range(int key)
{
	return key == 0 || !cast.apart;
}

static int
owner_of(int key, int route)
{
	return in_range(key) ? route : B;
}

static int
changed(int content)
{
	return content == ONE ? TWO : ONE;
}

void
first_state(State *s)
{
	memset(s, 0, sizeof(*s));
	s->row[A][0] = s->truth[0] = ONE;
	s->route = A;
	s->move = PENDING;
	s->w.left = cast.writer;
	s->d.left = cast.direct;
	s->r.left = cast.reader;
	s->reverts = cast.reverts;
}

/* ---------------------------------------------------------------------------
 * What holds in a state
 * ------------------------------------------------------------------------ */

static int
running(const State *s)
{
	return (s->w.at != W_IDLE ? WAIT_WRITER : 0) |
		   (s->d.at != D_IDLE && !s->d.lost ? WAIT_DIRECT : 0) |
		   (s->r.at != R_IDLE ? WAIT_READER : 0);
}

static bool
locked_by_mover(const State *s)
{
	return s->m[0].lock || s->m[1].lock;
}

static bool
locked_by_writers(const State *s)
{
	return s->w.at >= W_LOCKED || (s->d.at >= D_LOCKED && !s->d.lost);
}

static bool
claimed(const State *s)
{
	return s->m[0].claim || s->m[1].claim;
}

/* What the writer has written on a shard and not yet committed. */
static void
writer_puts(const State *s, int node, uint8_t put[2])
{
	const Writer *w = &s->w;
	int second = 1 - w->key;

	put[0] = put[1] = KEEP;
	if (w->at != W_COMMIT || w->commit[node] == NOTHING)
		return;
	if (node == owner_of(w->key, w->owner))
	{
		switch (w->kind)
		{
			case INSERT:
				put[w->key] = PUT + ONE;
				break;
			case UPDATE:
				put[w->key] = PUT + changed(w->old);
				break;
			default:
				put[w->key] = REMOVE;
		}
	}
	if (w->kind == REKEY && node == owner_of(second, w->owner))
		put[second] = PUT + w->old;
}

/* Has a transaction not yet ended changed the key's row there? */
static bool
row_locked(const State *s, int node, int key)
{
	uint8_t put[2];

	writer_puts(s, node, put);
	if (put[key] != KEEP)
		return true;
	if (s->d.put != KEEP && s->d.owner == node && s->d.key == key)
		return true;
	for (int i = 0; i < 2; i++)
	{
		if (s->m[i].put[node][key] != KEEP)
			return true;
		if (s->late[i].used && s->late[i].node == node && s->late[i].put[key] != KEEP)
			return true;
	}
	return false;
}

/* Has such a transaction written to the table at all? */
static bool
table_locked(const State *s, int node)
{
	return row_locked(s, node, 0) || row_locked(s, node, 1) || (s->w.elsewhere && node == A);
}

int
what_is_wrong(const State *s)
{
	bool under_way = s->late[0].used || s->late[1].used;
	bool open = !locked_by_mover(s);

	if (s->wrong)
		return s->wrong;
	for (int key = 0; key < 2; key++)
	{
		int owner = owner_of(key, s->route);

		if (!in_range(key) && s->row[A][key] != NONE)
			return WRONG_STRAY_ROWS;
		if ((open || !in_range(key)) && s->row[owner][key] != s->truth[key])
			return WRONG_OWNER_ROWS;
		if (!in_range(key) || under_way || claimed(s))
			continue;
		if ((s->move == CLEANED && s->row[A][key] != NONE) ||
			(s->move == PENDING && s->row[B][key] != NONE))
			return WRONG_STRAY_ROWS;
	}
	return FINE;
}

bool
is_good_end(const State *s)
{
	return s->move == CLEANED && !claimed(s) && !locked_by_mover(s) && s->w.at == W_IDLE &&
		   s->d.at == D_IDLE && s->r.at == R_IDLE && !s->late[0].used && !s->late[1].used;
}

/* ---------------------------------------------------------------------------
 * What all of them do
 * ------------------------------------------------------------------------ */

static void
exchange(void *a, void *b, size_t size)
{
	uint8_t kept[sizeof(Mover)];

	memcpy(kept, a, size);
	memcpy(a, b, size);
	memcpy(b, kept, size);
}

/* One of the states that are the same but for an exchange of equals. */
void
put_in_order(State *s)
{
	if (memcmp(&s->m[0], &s->m[1], sizeof(Mover)) < 0)
		exchange(&s->m[0], &s->m[1], sizeof(Mover));
	if (memcmp(&s->late[0], &s->late[1], sizeof(Late)) < 0)
		exchange(&s->late[0], &s->late[1], sizeof(Late));
}

#define STEP(next, ...) step(next, false, __VA_ARGS__)
#define CRASH(next, ...) step(next, true, __VA_ARGS__)

/* A COMMIT takes effect. */
static void
commit(State *s, int node, const uint8_t put[2], bool writer)
{
	for (int key = 0; key < 2; key++)
	{
		int content = put[key] - PUT;

		if (put[key] == KEEP)
			continue;
		if (!writer && content != NONE && s->row[node][key] != NONE)
			content = TWICE;
		s->row[node][key] = content;
		if (!writer)
			continue;
		s->truth[key] = content;
		if (s->w.at >= W_BEGUN && s->w.at <= W_LOCKED && (key == s->w.key || s->w.kind == REKEY))
			s->w.crossed = true;
		if (s->w.at == W_STATEMENT && s->w.key == key)
			s->w.seen |= 1 << content;
		if (s->r.at == R_STATEMENT && in_range(key))
			s->r.seen[key] |= 1 << content;
	}
}

/* The sender of a COMMIT dies; false if there are too many of these already. */
static bool
leave_commit(State *s, int node, const uint8_t put[2], bool writer)
{
	for (int i = 0; i < 2; i++)
	{
		if (s->late[i].used)
			continue;
		s->late[i] = (Late){true, node, writer, {put[0], put[1]}};
		return true;
	}
	return false;
}

static void
late_steps(const State *s)
{
	for (int i = 0; i < 2; i++)
	{
		const Late *late = &s->late[i];
		State n = *s;

		if (!late->used)
			continue;
		n.late[i] = (Late){0};
		STEP(&n, "the COMMIT under way to %s is lost: rolled back", shard[late->node]);
		commit(&n, late->node, late->put, late->writer);
		STEP(&n, "the COMMIT under way to %s takes effect now", shard[late->node]);
	}
}

/* Nobody need wait for this transaction any longer. */
static void
transaction_ended(State *s, int who)
{
	s->m[0].wait &= ~who;
	s->m[1].wait &= ~who;
}

/* ---------------------------------------------------------------------------
 * The writer through the coordinator
 * ------------------------------------------------------------------------ */

static void
end_writer(State *s)
{
	s->w = (Writer){.left = s->w.left};
	transaction_ended(s, WAIT_WRITER);
}

/* Opens the snapshot of a shard, which the transaction keeps. */
static void
writer_touches(State *s, int node)
{
	Writer *w = &s->w;
	int content = s->row[node][w->key];

	if (w->open[node])
		return;
	w->open[node] = true;
	w->snap[node] = content;
	if (w->at == W_BEGUN)
		w->right[node] = content == s->truth[w->key];
	else if (w->at == W_STATEMENT)
		w->right[node] = (w->seen >> content & 1) != 0;
}

static void
writer_reads(State *s)
{
	Writer *w = &s->w;
	int node = owner_of(w->key, w->view);

	writer_touches(s, node);
	w->old = w->snap[node];
	w->at = W_READ;
	w->seen = 0;
	if (!w->right[node])
		s->wrong = WRONG_READ;
	w->right[A] = w->right[B] = false;
	if (variant != LOOK_FIRST)
		w->view = 0;
}

static void
writer_locks(State *s)
{
	Writer *w = &s->w;

	w->owner = variant == LOOK_FIRST ? w->view : s->route;
	w->at = W_LOCKED;
	w->view = 0;
	w->seen = 0;
	w->right[A] = w->right[B] = false;
	for (int node = 0; node < 2; node++)
	{
		if (node != owner_of(w->key, w->owner))
			w->open[node] = w->snap[node] = 0;
	}
}

/*
 * The statements on the shards.  An error ends the transaction; the move is to blame
 * if nobody else has changed the key and the committed row is what it should be.
 */
static void
writer_writes(const State *s)
{
	const Writer *w = &s->w;
	int node = owner_of(w->key, w->owner);
	int second = 1 - w->key;
	int second_node = owner_of(second, w->owner);
	bool insert = w->kind == INSERT;
	int row = s->row[node][w->key];
	int expected = insert ? NONE : w->old;
	int snapshot = w->open[node] && !insert ? w->snap[node] : row;
	State n = *s;

	if (row_locked(s, node, w->key) || (w->kind == REKEY && row_locked(s, second_node, second)))
		return;
	if (variant == NO_CONDITION && !insert && snapshot != NONE && snapshot == row)
		expected = row;
	if (row != expected || snapshot != expected)
	{
		end_writer(&n);
		if (s->truth[w->key] == expected && !w->crossed)
			n.wrong = WRONG_ERROR;
		STEP(&n, "the writer finds another row of k%d on %s, or none: error", w->key, shard[node]);
		return;
	}
	if (w->kind == REKEY && s->row[second_node][second] != NONE)
	{
		end_writer(&n);
		if (s->truth[second] == NONE && !w->crossed)
			n.wrong = WRONG_ERROR;
		STEP(&n, "the writer finds a row of k%d on %s already: error", second, shard[second_node]);
		return;
	}
	n.w.at = W_COMMIT;
	n.w.crossed = false;
	n.w.open[A] = n.w.open[B] = n.w.snap[A] = n.w.snap[B] = 0;
	n.w.commit[node] = SENT;
	if (w->kind == REKEY && second_node != node)
	{
		n.w.commit[second_node] = WROTE;
		STEP(&n, "the writer has written to both and sends COMMIT to %s", shard[node]);
		n.w.commit[node] = WROTE;
		n.w.commit[second_node] = SENT;
		node = second_node;
	}
	STEP(&n, "the writer writes, and sends COMMIT to %s", shard[node]);
}

static void
writer_commits(const State *s)
{
	State n = *s;
	int node = s->w.commit[A] == SENT ? A : B;
	uint8_t put[2];

	writer_puts(s, node, put);
	if (s->w.kind != INSERT && node == owner_of(s->w.key, s->w.owner) &&
		s->truth[s->w.key] != s->w.old)
		n.wrong = WRONG_LOST;
	commit(&n, node, put, true);
	n.w.commit[node] = NOTHING;
	if (s->w.commit[other(node)] == WROTE)
	{
		n.w.commit[other(node)] = SENT;
		STEP(&n, "the writer's COMMIT on %s is done; it sends the one to %s", shard[node],
			 shard[other(node)]);
		return;
	}
	end_writer(&n);
	STEP(&n, "the writer's COMMIT on %s is done: acknowledged", shard[node]);
}

static void
writer_begins(const State *s)
{
	for (int kind = INSERT; kind <= REKEY; kind++)
	{
		for (int key = 0; key < 2; key++)
		{
			State n = *s;

			if (!in_range(key) && kind != REKEY)
				continue;
			n.w.left--;
			n.w.at = W_BEGUN;
			n.w.kind = kind;
			n.w.key = key;
			STEP(&n, "the writer begins: %s k%d", verb[kind], key);
		}
	}
}

/* Other statements of the transaction, before it asks for the lock. */
static void
writer_prelude(const State *s)
{
	for (int node = 0; node < 2; node++)
	{
		State n = *s;

		if (s->w.open[node])
			continue;
		writer_touches(&n, node);
		STEP(&n, "the writer touches %s, which opens its snapshot there", shard[node]);
	}
	if (cast.elsewhere && s->w.at == W_BEGUN && !s->w.elsewhere)
	{
		State n = *s;

		writer_touches(&n, A);
		n.w.elsewhere = true;
		STEP(&n, "the writer writes to a row of A outside of the range");
	}
}

static void
writer_steps(const State *s)
{
	State n = *s;

	switch (s->w.at)
	{
		case W_IDLE:
			if (s->w.left > 0)
				writer_begins(s);
			break;
		case W_BEGUN:
			writer_prelude(s);
			n.w.at = W_STATEMENT;
			n.w.view = s->route;
			n.w.seen = 1 << s->truth[s->w.key];
			STEP(&n, "the writer's statement begins; by its snapshot of the ring %s owns the range",
				 shard[s->route]);
			break;
		case W_STATEMENT:
			writer_prelude(s);
			if (s->w.kind == INSERT)
				break;
			writer_reads(&n);
			if (n.w.old == NONE)
				end_writer(&n);
			STEP(&n, "the writer reads the row on %s", shard[owner_of(s->w.key, s->w.view)]);
			break;
		case W_READ:
			writer_prelude(s);
			break;
		case W_LOCKED:
			writer_writes(s);
			break;
		case W_COMMIT:
			writer_commits(s);
			break;
	}
	if ((s->w.at == W_READ || (s->w.at == W_STATEMENT && s->w.kind == INSERT)) &&
		!locked_by_mover(s))
	{
		n = *s;
		if (s->w.skipped)
		{
			end_writer(&n);
			STEP(&n, "the writer has the lock, but the range has moved meanwhile: error");
			return;
		}
		writer_locks(&n);
		STEP(&n, "the writer has the lock, and goes to %s", shard[owner_of(s->w.key, n.w.owner)]);
	}
}

/* Its session dies. */
static bool
writer_dies(State *s)
{
	for (int node = 0; node < 2; node++)
	{
		uint8_t put[2];

		if (s->w.commit[node] != SENT)
			continue;
		writer_puts(s, node, put);
		if (!leave_commit(s, node, put, true))
			return false;
	}
	end_writer(s);
	return true;
}

/* ---------------------------------------------------------------------------
 * The direct writer
 * ------------------------------------------------------------------------ */

static void
end_direct(State *s)
{
	s->d = (Direct){.left = s->d.left};
	transaction_ended(s, WAIT_DIRECT);
}

static void
direct_commits(State *s)
{
	uint8_t put[2] = {KEEP, KEEP};

	put[s->d.key] = s->d.put;
	commit(s, s->d.owner, put, true);
	end_direct(s);
}

static void
direct_writes(const State *s)
{
	const Direct *d = &s->d;
	int row = s->row[d->owner][d->key];
	State n = *s;

	if (row_locked(s, d->owner, d->key))
		return;
	if ((row == NONE) != (d->kind == INSERT))
	{
		end_direct(&n);
		STEP(&n, "the direct writer finds nothing to do on %s, and rolls back", shard[d->owner]);
		return;
	}
	n.d.at = D_WROTE;
	n.d.put = d->kind == DELETE ? REMOVE : PUT + (d->kind == INSERT ? ONE : changed(row));
	STEP(&n, "the direct writer writes on %s", shard[d->owner]);
}

static void
direct_begins(const State *s)
{
	for (int kind = INSERT; kind <= DELETE; kind++)
	{
		for (int key = 0; key < 2; key++)
		{
			State n = *s;

			if (!in_range(key))
				continue;
			n.d.left--;
			n.d.at = D_BEGUN;
			n.d.kind = kind;
			n.d.key = key;
			if (variant == LOOK_FIRST)
				n.d.owner = s->route;
			STEP(&n, "the direct writer begins on the coordinator: %s k%d", verb[kind], key);
		}
	}
}

static void
direct_steps(const State *s)
{
	State n = *s;

	switch (s->d.at)
	{
		case D_IDLE:
			if (s->d.left > 0)
				direct_begins(s);
			break;
		case D_BEGUN:
			if (locked_by_mover(s))
				break;
			if (s->d.skipped)
			{
				end_direct(&n);
				STEP(&n,
					 "the direct writer has the lock, but the range has moved meanwhile: error");
				break;
			}
			n.d.at = D_LOCKED;
			if (variant != LOOK_FIRST)
				n.d.owner = s->route;
			STEP(&n, "the direct writer has the lock, and goes to %s", shard[n.d.owner]);
			break;
		case D_LOCKED:
			direct_writes(s);
			break;
		case D_WROTE:
			if (s->d.lost && variant != NO_CHECK)
			{
				end_direct(&n);
				STEP(&n, "the direct writer sees that its session is lost, and rolls back");
				break;
			}
			n.d.at = D_CHECKED;
			STEP(&n, "the direct writer goes on, its session being alive");
			break;
		case D_CHECKED:
			n.d.at = D_SENT;
			STEP(&n, "the direct writer sends COMMIT to %s", shard[s->d.owner]);
			break;
		case D_SENT:
			direct_commits(&n);
			STEP(&n, "the direct writer's COMMIT on %s is done: acknowledged", shard[s->d.owner]);
			break;
	}
}

/* Its session on the coordinator ends; it sees that when it looks. */
static void
direct_loses_session(State *s)
{
	if (s->d.at == D_BEGUN)
		end_direct(s);
	else if (s->d.at != D_IDLE)
	{
		s->d.lost = true;
		transaction_ended(s, WAIT_DIRECT);
	}
}

/* The program dies. */
static bool
direct_dies(State *s)
{
	uint8_t put[2] = {KEEP, KEEP};

	put[s->d.key] = s->d.put;
	if (s->d.at == D_SENT && !leave_commit(s, s->d.owner, put, true))
		return false;
	end_direct(s);
	return true;
}

/* ---------------------------------------------------------------------------
 * The reader
 * ------------------------------------------------------------------------ */

static void
end_reader(State *s)
{
	s->r = (Reader){.left = s->r.left};
	transaction_ended(s, WAIT_READER);
}

static void
reader_touches(State *s, int node)
{
	Reader *r = &s->r;

	if (r->open[node])
		return;
	r->open[node] = r->right[node] = true;
	for (int key = 0; key < 2; key++)
	{
		int content = s->row[node][key];

		if (!in_range(key))
			continue;
		if (r->at == R_STATEMENT ? !(r->seen[key] >> content & 1) : content != s->truth[key])
			r->right[node] = false;
	}
}

static void
reader_reads(State *s)
{
	Reader *r = &s->r;
	int node = r->view;

	reader_touches(s, node);
	if (!r->right[node])
		s->wrong = WRONG_READ;
	if (variant == NO_FILTER && !r->open[other(node)])
	{
		for (int key = 0; key < 2; key++)
		{
			if (in_range(key) && s->row[other(node)][key] != NONE)
				s->wrong = WRONG_READ;
		}
	}
	r->at = R_BEGUN;
	r->view = r->seen[0] = r->seen[1] = 0;
}

static void
reader_steps(const State *s)
{
	State n = *s;

	if (s->r.at == R_IDLE)
	{
		if (s->r.left == 0)
			return;
		n.r.left--;
		n.r.at = R_BEGUN;
		STEP(&n, "the reader begins");
		return;
	}
	for (int node = 0; node < 2; node++)
	{
		if (s->r.open[node])
			continue;
		n = *s;
		reader_touches(&n, node);
		STEP(&n, "the reader touches %s, which opens its snapshot there", shard[node]);
	}
	n = *s;
	if (s->r.at == R_STATEMENT)
	{
		reader_reads(&n);
		STEP(&n, "the reader reads the range's rows on %s", shard[s->r.view]);
		return;
	}
	n.r.at = R_STATEMENT;
	n.r.view = s->route;
	for (int key = 0; key < 2; key++)
		n.r.seen[key] = in_range(key) ? 1 << s->truth[key] : 0;
	STEP(&n, "the reader's statement begins; by its snapshot of the ring %s owns the range",
		 shard[s->route]);
	n = *s;
	end_reader(&n);
	STEP(&n, "the reader ends");
}

/* ---------------------------------------------------------------------------
 * The movers
 * ------------------------------------------------------------------------ */

static int
source(const Mover *m)
{
	return m->back ? B : A;
}

static int
target(const Mover *m)
{
	return other(source(m));
}

/* The mover takes the move up where its state says. */
static void
mover_begins(const State *s, int i)
{
	State n = *s;
	Mover *m = &n.m[i];

	if (claimed(s) && variant != NO_CLAIM)
		return;
	m->claim = true;
	switch (s->move)
	{
		case PENDING:
		case COPYING:
			m->fresh = s->move == PENDING;
			m->at = M_CLOSE;
			n.move = COPYING;
			break;
		case MOVED:
			m->at = M_WAIT_OLD;
			m->wait = running(s);
			break;
		case REVERTING:
			m->back = true;
			m->at = s->route == A ? M_WAIT_OLD : M_WAIT_FIRST;
			m->wait = m->at == M_WAIT_FIRST && variant == NO_WAIT_FIRST ? 0 : running(s);
			break;
		default:
			return;
	}
	STEP(&n, "a mover claims the move%s",
		 s->move == PENDING ? ""
		 : claimed(s)		? ", which another has"
							: " again");
}

static void
give_up_claim(State *s, int i)
{
	memset(&s->m[i], 0, sizeof(Mover));
}

/* Gives way before it has touched anything. */
static void
mover_gives_way(const State *s, int i)
{
	State n = *s;

	if (variant == GIVE_WAY_IS_PENDING && !s->m[i].back)
		n.m[i].at = M_UNDO;
	else
	{
		if (s->m[i].fresh && s->move == COPYING)
			n.move = PENDING;
		give_up_claim(&n, i);
	}
	STEP(&n, "the mover gives way");
}

/*
 * Deletes the range's rows on a shard and sends COMMIT, or goes on at once where
 * there are none.  Waits for rows that others have changed.
 */
static void
mover_deletes(const State *s, int i, int node, int sent, int done, const char *what)
{
	State n = *s;
	Mover *m = &n.m[i];

	m->at = done;
	for (int key = 0; key < 2; key++)
	{
		if (!in_range(key) || s->row[node][key] == NONE)
			continue;
		if (row_locked(s, node, key))
			return;
		m->put[node][key] = REMOVE;
		m->node = node;
		m->at = sent;
	}
	STEP(&n, m->at == sent ? "the mover %s %s and sends COMMIT" : "the mover %s %s: nothing there",
		 what, shard[node]);
}

static void
copy_done(State *s, int i)
{
	s->m[i].at = M_WAIT;
	s->m[i].wait = variant == NO_WAIT ? 0 : running(s);
}

static void
mover_copies(const State *s, int i)
{
	State n = *s;
	Mover *m = &n.m[i];
	bool rows = false;

	for (int key = 0; key < 2; key++)
	{
		int content = variant == EARLY_SNAPSHOT ? m->early[key] : s->row[source(m)][key];

		if (!in_range(key) || content == NONE)
			continue;
		rows = true;
		m->put[target(m)][key] = PUT + content;
		if (variant != ONE_TRANSACTION)
			continue;
		if (row_locked(s, source(m), key))
			return;
		m->put[source(m)][key] = REMOVE;
	}
	if (!rows)
	{
		copy_done(&n, i);
		STEP(&n, "the mover copies: there is nothing");
		return;
	}
	m->at = M_COPY_SENT;
	m->node = target(m);
	STEP(&n, "the mover copies%s from %s to %s and sends COMMIT to %s",
		 variant == ONE_TRANSACTION ? " and deletes" : "", shard[source(m)], shard[target(m)],
		 shard[m->node]);
	if (variant == ONE_TRANSACTION)
	{
		m->node = source(m);
		STEP(&n, "the mover copies and deletes from %s to %s and sends COMMIT to %s",
			 shard[source(m)], shard[target(m)], shard[m->node]);
	}
}

/* The COMMIT that the mover has sent takes effect. */
static void
mover_commit_lands(State *s, int i)
{
	Mover *m = &s->m[i];
	uint8_t put[2] = {m->put[m->node][0], m->put[m->node][1]};

	commit(s, m->node, put, false);
	m->put[m->node][0] = m->put[m->node][1] = KEEP;
	m->node = 0;
}

/* Those who ask for the lock, or are about to. */
static int
asking(const State *s)
{
	bool writer = s->w.at == W_READ || (s->w.at == W_STATEMENT && s->w.kind == INSERT);

	return (writer ? WAIT_WRITER : 0) | (s->d.at == D_BEGUN ? WAIT_DIRECT : 0);
}

static void
mover_cuts_over(const State *s, int i)
{
	State n = *s;
	Mover *m = &n.m[i];

	if (m->wait & ~(variant == SKIP_WAITING ? asking(s) : 0))
		return;
	n.w.skipped = (m->wait & WAIT_WRITER) != 0;
	n.d.skipped = (m->wait & WAIT_DIRECT) != 0;
	n.route = target(m);
	n.move = !m->back ? MOVED : variant == BACK_IS_PENDING ? PENDING : REVERTING;
	m->at = M_OPEN;
	m->wait = running(s);
	STEP(&n, "the mover cuts over: %s owns the range", shard[target(m)]);
}

/* The source is clean. */
static void
mover_finishes(State *s, int i)
{
	s->move = s->m[i].back ? PENDING : CLEANED;
	give_up_claim(s, i);
}

static void
mover_steps(const State *s, int i)
{
	State n = *s;
	Mover *m = &n.m[i];
	bool drained = !table_locked(s, target(m)) || variant == NO_DRAIN_OF_TARGET;

	switch (m->at)
	{
		case M_IDLE:
			mover_begins(s, i);
			break;
		case M_WAIT_FIRST:
			if (m->wait != 0)
				break;
			m->at = M_CLOSE;
			STEP(&n, "the mover has waited for those who read on %s", shard[target(m)]);
			break;
		case M_CLOSE:
			mover_gives_way(s, i);
			if (variant != NO_CLOSE && (locked_by_mover(s) || locked_by_writers(s)))
				break;
			m->lock = variant != NO_CLOSE;
			m->at = M_DRAIN;
			if (variant == EARLY_SNAPSHOT)
				memcpy(m->early, s->row[source(m)], sizeof(m->early));
			STEP(&n, "the mover %s", m->lock ? "has the lock: closed" : "goes on without a lock");
			break;
		case M_DRAIN:
			if (variant != DRAIN_UNBOUNDED)
				mover_gives_way(s, i);
			if (!drained || (table_locked(s, source(m)) && variant != NO_DRAIN))
				break;
			m->at = M_CLEAR;
			m->fresh = false;
			if (variant == REVERT_WITHOUT_COPY && m->back)
				copy_done(&n, i);
			STEP(&n, variant == NO_DRAIN ? "the mover does not drain the source"
										 : "the mover has drained the table");
			break;
		case M_CLEAR:
			if (variant == NO_CLEAR)
			{
				m->at = M_COPY;
				STEP(&n, "the mover does not clear %s", shard[target(m)]);
			}
			else
				mover_deletes(s, i, target(m), M_CLEAR_SENT, M_COPY, "clears");
			break;
		case M_CLEAR_SENT:
			mover_commit_lands(&n, i);
			m->at = M_COPY;
			STEP(&n, "the mover's COMMIT is done: %s is cleared", shard[target(m)]);
			break;
		case M_COPY:
			mover_copies(s, i);
			break;
		case M_COPY_SENT:
			mover_commit_lands(&n, i);
			for (int node = 0; node < 2; node++)
			{
				if (m->put[node][0] != KEEP || m->put[node][1] != KEEP)
					m->node = node;
			}
			if (m->put[m->node][0] == KEEP && m->put[m->node][1] == KEEP)
				copy_done(&n, i);
			STEP(&n, "the mover's COMMIT on %s is done", shard[s->m[i].node]);
			break;
		case M_WAIT:
			mover_cuts_over(s, i);
			m->at = M_UNDO;
			m->wait = 0;
			STEP(&n, "the mover gives way");
			break;
		case M_UNDO:
			mover_deletes(s, i, target(m), M_UNDO_SENT, M_UNDO_SENT, "clears");
			break;
		case M_UNDO_SENT:
			mover_commit_lands(&n, i);
			n.move = m->back ? REVERTING : PENDING;
			give_up_claim(&n, i);
			STEP(&n, "the mover has given way, and unlocks");
			break;
		case M_OPEN:
			m->lock = false;
			m->at = M_WAIT_OLD;
			STEP(&n, "the mover unlocks");
			break;
		case M_WAIT_OLD:
			if (m->wait != 0 && variant != NO_WAIT_OLD)
				break;
			m->at = M_CLEAN;
			m->wait = 0;
			STEP(&n, variant == NO_WAIT_OLD ? "the mover does not wait for older transactions"
											: "the mover has waited for older transactions");
			break;
		case M_CLEAN:
			mover_deletes(s, i, source(m), M_CLEAN_SENT, M_CLEAN_SENT, "cleans");
			break;
		case M_CLEAN_SENT:
			mover_commit_lands(&n, i);
			mover_finishes(&n, i);
			STEP(&n, "the mover's COMMIT is done: %s is cleaned", shard[source(&s->m[i])]);
			break;
	}
}

static bool
mover_dies(State *s, int i)
{
	Mover *m = &s->m[i];
	const uint8_t *put = m->put[m->node];

	if ((put[0] != KEEP || put[1] != KEEP) && !leave_commit(s, m->node, put, false))
		return false;
	give_up_claim(s, i);
	return true;
}

/* ---------------------------------------------------------------------------
 * The operator, and crashes
 * ------------------------------------------------------------------------ */

static void
operator_steps(const State *s)
{
	State n = *s;

	if (s->reverts == 0 || (s->move != MOVED && s->move != CLEANED))
		return;
	if (claimed(s) && variant != REVERT_UNDER_WORKER)
		return;
	/* Not even if A still has all that it had. */
	if (variant == REVERT_WITHOUT_COPY &&
		(s->move != MOVED || s->row[A][0] == NONE || s->late[0].used || s->late[1].used))
		return;
	n.reverts--;
	n.move = REVERTING;
	n.m[0].claim = n.m[1].claim = false;
	STEP(&n, "the operator reverts the move");
}

static void
coordinator_crashes(const State *s)
{
	State n = *s;

	if (!writer_dies(&n) || !mover_dies(&n, 0) || !mover_dies(&n, 1))
		return;
	direct_loses_session(&n);
	end_reader(&n);
	CRASH(&n, "the coordinator crashes");
	if (variant == CUTOVER_NOT_DURABLE && s->move == MOVED)
	{
		n.route = A;
		n.move = COPYING;
		CRASH(&n, "the coordinator crashes, and has forgotten the cutover");
	}
}

static void
crashes(const State *s)
{
	State n = *s;

	coordinator_crashes(s);
	if (s->w.at != W_IDLE && writer_dies(&n))
		CRASH(&n, "the writer's session dies");
	n = *s;
	if (s->d.at != D_IDLE && direct_dies(&n))
		CRASH(&n, "the direct writer dies");
	n = *s;
	if (s->d.at != D_IDLE && !s->d.lost)
	{
		direct_loses_session(&n);
		CRASH(&n, "the direct writer's session on the coordinator dies");
	}
	for (int i = 0; i < 2; i++)
	{
		n = *s;
		if (s->m[i].at != M_IDLE && mover_dies(&n, i))
			CRASH(&n, "the mover's session dies");
	}
}

void
all_steps(const State *s)
{
	late_steps(s);
	writer_steps(s);
	direct_steps(s);
	reader_steps(s);
	for (int i = 0; i < 2; i++)
		mover_steps(s, i);
	operator_steps(s);
	crashes(s);
}
