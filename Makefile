# chash: consistent-hash-ring sharding in SQL
#
#	make && make install		build and install, for the server of PG_CONFIG
#	make installcheck			tests against a running server that has it:
#						pg_regress and isolation tests
#	make prove_installcheck		TAP tests, which start servers of their own
#						(PROVE_TESTS and PROVE_FLAGS are passed on)
#
# All of it works in a directory of its own as well: make -f /where/it/is/Makefile

# Where this file is, which need not be where it is built.
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
files_here = $(sort $(patsubst $(HERE)%,%,$(wildcard $(addprefix $(HERE),$(1)))))

EXTENSION = chash
EXTVERSION = 0.3.0
MODULE_big = chash
# The present version as a whole, and how to get from one version to the next.
DATA = $(call files_here,chash--*.sql)

OBJS = \
	src/chash.o \
	src/api/inspect.o \
	src/api/json.o \
	src/api/lookup.o \
	src/api/manage.o \
	src/api/monitor.o \
	src/api/plan.o \
	src/api/result.o \
	src/change/difference.o \
	src/change/execute.o \
	src/change/functions.o \
	src/change/notify.o \
	src/change/present.o \
	src/change/row.o \
	src/change/settle.o \
	src/change/statements.o \
	src/change/touch.o \
	src/change/triggers.o \
	src/change/write.o \
	src/cache/cache.o \
	src/cache/names.o \
	src/cache/pages.o \
	src/cache/segment.o \
	src/cache/shared.o \
	src/store/catalog.o \
	src/store/definition.o \
	src/store/snapshot.o \
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

REGRESS = $(patsubst sql/%.sql,%,$(call files_here,sql/*.sql))
REGRESS_OPTS = --load-extension=chash
ISOLATION = $(patsubst test/isolation/specs/%.spec,%,$(call files_here,test/isolation/specs/*.spec))
ISOLATION_OPTS = --inputdir=$(srcdir)/test/isolation --load-extension=chash
# Whatever the server's own encoding and locale are.
ENCODING = UTF8
NO_LOCALE = 1

# Not TAP_TESTS, which would make them a part of installcheck.
PROVE_TESTS = test/tap/*.pl
EXTRA_CLEAN = tmp_check

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(shell mkdir -p $(sort $(dir $(OBJS))))

# The headers are few and small: whoever changes one builds everything anew, the
# bitcode for JIT compilation included.
$(OBJS) $(OBJS:.o=.bc): $(call files_here,src/*.h src/*/*.h)

.PHONY: prove_installcheck
prove_installcheck:
	$(prove_installcheck)
