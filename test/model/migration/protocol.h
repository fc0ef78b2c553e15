/*
 * protocol.h
 *		The protocol that moves a range of live rows, as a model: its states and
 *		its steps.  protocol.c explains both.
 */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

/* The shards.  The range belongs to A at first, and is to move to B. */
enum
{
	A,
	B
};

/* What a shard has of a key: no row, a row with one of two contents, two rows. */
enum
{
	NONE,
	ONE,
	TWO,
	TWICE
};

/* What a transaction does to the rows of a key; PUT + a content: it leaves this. */
enum
{
	KEEP,
	PUT,
	REMOVE = PUT + NONE
};

/* State of the move, as chash_moves has it. */
enum
{
	PENDING,
	COPYING,
	MOVED,
	CLEANED,
	REVERTING
};

enum
{
	INSERT,
	UPDATE,
	DELETE,
	REKEY
};

/* A remote transaction of the writer through the coordinator. */
enum
{
	NOTHING,
	WROTE,
	SENT
};

enum
{
	W_IDLE,
	W_BEGUN,	 /* in a transaction */
	W_STATEMENT, /* the statement has its snapshot of the ring */
	W_READ,		 /* has read the row, and asks for the lock */
	W_LOCKED,
	W_COMMIT /* has written; a COMMIT is under way */
};

enum
{
	D_IDLE,
	D_BEGUN, /* in a transaction on the coordinator, and asks for the lock */
	D_LOCKED,
	D_WROTE,   /* has written on its own connection to the shard */
	D_CHECKED, /* has seen its connection to the coordinator alive after that */
	D_SENT	   /* the COMMIT to the shard is under way */
};

enum
{
	R_IDLE,
	R_BEGUN,
	R_STATEMENT /* the statement has its snapshot of the ring */
};

enum
{
	M_IDLE,
	M_WAIT_FIRST, /* a way back: for readers of the old source, before it is cleared */
	M_CLOSE,
	M_DRAIN,
	M_CLEAR,
	M_CLEAR_SENT,
	M_COPY,
	M_COPY_SENT,
	M_WAIT,
	M_UNDO, /* gives way */
	M_UNDO_SENT,
	M_OPEN, /* has cut over */
	M_WAIT_OLD,
	M_CLEAN,
	M_CLEAN_SENT
};

/* What is wrong with a state. */
enum
{
	FINE,
	WRONG_OWNER_ROWS, /* the owner has not exactly the rows that were committed */
	WRONG_STRAY_ROWS, /* rows where none should be */
	WRONG_READ,		  /* a reader missed a committed row, or saw it twice */
	WRONG_LOST,		  /* a write onto a row that its writer has not seen */
	WRONG_ERROR,	  /* a writer got an error because of the move */
	WRONG_STUCK		  /* the migration cannot end any more */
};

/* Whom a mover waits for; bits of Mover.wait. */
enum
{
	WAIT_WRITER = 1,
	WAIT_DIRECT = 2,
	WAIT_READER = 4
};

/*
 * Every field is a byte, so that a state is also an array of bytes: what each of
 * them needs in bits says state_width, which is a State too.
 */
typedef struct Late
{
	uint8_t used;
	uint8_t node;
	uint8_t writer; /* sent by a writer, not by a mover */
	uint8_t put[2]; /* per key */
} Late;

typedef struct Writer
{
	uint8_t left; /* transactions that it may still begin */
	uint8_t at;	  /* W_... */
	uint8_t kind; /* INSERT ... */
	uint8_t key;
	uint8_t view;	   /* the owner by the statement's snapshot of the ring */
	uint8_t seen;	   /* contents that the key has had since then; a bit for each */
	uint8_t old;	   /* the row that it has read */
	uint8_t owner;	   /* the owner that the lock returned */
	uint8_t open[2];   /* has a snapshot of this shard */
	uint8_t snap[2];   /* the key's row in it */
	uint8_t right[2];  /* that was the committed row if the shard was the owner */
	uint8_t elsewhere; /* has written to rows of A that lie in no range that moves */
	uint8_t commit[2]; /* NOTHING ... */
	uint8_t skipped;   /* a mover did not wait for it */
	uint8_t crossed;   /* somebody else has changed the key during its transaction */
} Writer;

typedef struct Direct
{
	uint8_t left;
	uint8_t at; /* D_... */
	uint8_t kind;
	uint8_t key;
	uint8_t owner;
	uint8_t lost; /* its session on the coordinator has ended */
	uint8_t put;
	uint8_t skipped;
} Direct;

typedef struct Reader
{
	uint8_t left;
	uint8_t at; /* R_... */
	uint8_t view;
	uint8_t seen[2];
	uint8_t open[2];
	uint8_t right[2];
} Reader;

typedef struct Mover
{
	uint8_t at;		   /* M_... */
	uint8_t claim;	   /* is the move's worker */
	uint8_t lock;	   /* has the exclusive lock on the slice */
	uint8_t back;	   /* on the way back, from B to A */
	uint8_t fresh;	   /* found the move pending */
	uint8_t wait;	   /* WAIT_... */
	uint8_t node;	   /* where its COMMIT is under way */
	uint8_t put[2][2]; /* what it has written and not yet committed; per shard and key */
	uint8_t early[2];  /* EARLY_SNAPSHOT: the rows in it */
} Mover;

typedef struct State
{
	/* On the shards: what is committed, per shard and key. */
	uint8_t row[2][2];
	Late late[2]; /* COMMITs under way whose sender is gone */

	/* On the coordinator: what is committed. */
	uint8_t route; /* whose the range is */
	uint8_t move;  /* PENDING ... */

	Writer w;
	Direct d;
	Reader r;
	Mover m[2];
	uint8_t reverts; /* how often the operator may still revert the move */

	/* Nobody in the model can see these. */
	uint8_t truth[2]; /* what was committed last, by whatever writer, per key */
	uint8_t wrong;	  /* FINE ... */
} State;

extern const State state_width;

/* Who takes part. */
typedef struct Cast
{
	const char *name;
	int writer; /* transactions of each */
	int direct;
	int reader;
	int reverts;
	bool elsewhere; /* the writer may write to other rows of A first */
	bool apart;		/* the second key lies outside of the range and belongs to B */
} Cast;

/* The complete protocol, and what can be done otherwise. */
typedef enum Variant
{
	COMPLETE,

	/* Steps left out. */
	NO_CLAIM,
	NO_CLOSE,
	NO_DRAIN, /* of the source */
	NO_DRAIN_OF_TARGET,
	NO_CLEAR,
	NO_WAIT,
	NO_WAIT_OLD,
	NO_WAIT_FIRST,
	REVERT_WITHOUT_COPY,

	/* Steps taken in another way. */
	ONE_TRANSACTION,	 /* copies and deletes in one */
	EARLY_SNAPSHOT,		 /* the snapshot that copies is older than the drain */
	DRAIN_UNBOUNDED,	 /* without giving way */
	CUTOVER_NOT_DURABLE, /* a crash may forget it */
	REVERT_UNDER_WORKER, /* takes the move from a live one */
	BACK_IS_PENDING,	 /* as soon as it is cut over */
	GIVE_WAY_IS_PENDING, /* whatever the state was */

	/* Writers and readers. */
	LOOK_FIRST,
	NO_CONDITION,
	NO_CHECK,
	NO_FILTER,

	/* Step 7 does not wait for those who wait for the lock: these get an error. */
	SKIP_WAITING
} Variant;

extern Cast cast;
extern Variant variant;

extern void first_state(State *s);
extern void all_steps(const State *s);
extern int what_is_wrong(const State *s);
extern bool is_good_end(const State *s);
extern void put_in_order(State *s);

/*
 * all_steps() calls it for every step that can be taken in a state.  The text is
 * what the step is, for a trace.
 */
extern void step(const State *next, bool crash, const char *text, ...)
	__attribute__((format(printf, 3, 4)));

#endif
