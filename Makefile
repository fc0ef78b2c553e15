# chash: consistent-hash-ring sharding in SQL
#
#	make && make install		build and install, for the server of PG_CONFIG
#	make installcheck			tests against a running server that has it

EXTENSION = chash
EXTVERSION = 0.3.0
MODULE_big = chash
# The present version as a whole, and how to get from one version to the next.
DATA = $(sort $(wildcard chash--*.sql))

OBJS = \
	src/chash.o \
	src/api/inspect.o \
	src/api/json.o \
	src/api/lookup.o \
	src/api/manage.o \
	src/api/monitor.o \
	src/api/plan.o \
	src/api/result.o \
	src/change/change.o \
	src/change/difference.o \
	src/change/execute.o \
	src/change/notify.o \
	src/change/present.o \
	src/change/row.o \
	src/change/statements.o \
	src/change/triggers.o \
	src/cache/cache.o \
	src/cache/names.o \
	src/cache/pages.o \
	src/cache/segment.o \
	src/cache/shared.o \
	src/store/catalog.o \
	src/store/definition.o \
	src/store/subscription.o \
	src/store/values.o \
	src/ring/diff.o \
	src/ring/hash.o \
	src/ring/partitions.o \
	src/ring/ranges.o \
	src/ring/replicas.o \
	src/ring/ring.o \
	src/ring/spec.o \
	src/ring/work.o

# Speed of lookups is the point, and hashing is inlined.  The assertions of
# src/ring are for its own tests.
PG_CPPFLAGS = -DNDEBUG -DCHASH_VERSION=\"$(EXTVERSION)\"
PG_CFLAGS = -O3 -std=gnu11 -Wno-declaration-after-statement

REGRESS = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
REGRESS_OPTS = --inputdir=. --load-extension=chash
ISOLATION = $(patsubst test/isolation/specs/%.spec,%,$(sort $(wildcard test/isolation/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test/isolation --load-extension=chash

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# The headers are few and small: whoever changes one builds everything anew.
$(OBJS): $(wildcard src/*.h src/*/*.h)
