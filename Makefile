# sgpu: `make help` lists the targets and the variables.
CC ?= cc
AR ?= ar
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
DESTDIR ?=
BUILD ?= build
V ?= 0
# Fast tiers, each can be switched off with 0: libipsec-mb for AES-GCM, a BLAS for gemm, wider vectors by CPU.
IPSEC_MB ?= $(if $(wildcard /usr/include/intel-ipsec-mb.h $(addsuffix /intel-ipsec-mb.h,$(subst :, ,$(CPATH)))),1,0)
BLAS ?= 1
CLONES ?= 1
# NUMA placement through libnuma.
NUMA ?= $(if $(wildcard /usr/include/numa.h $(addsuffix /numa.h,$(subst :, ,$(CPATH)))),1,0)
# address (with undefined) or thread.
SANITIZE ?=

PARTS := base manifest crypto seal batch device ops stage enclave
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith -Wformat=2
HARDEN := -fstack-protector-strong -fPIE $(if $(SANITIZE),,-D_FORTIFY_SOURCE=2)
SGPU_CPPFLAGS := -D_GNU_SOURCE -Iinclude -Ilib -Itools/common
SGPU_CFLAGS := -std=c11 -pthread $(WARN) $(HARDEN)
SGPU_LDFLAGS := -pie -pthread -Wl,-z,relro,-z,now
LIBS := -ljansson -lcrypto -lm -ldl

ifeq ($(IPSEC_MB),1)
SGPU_CPPFLAGS += -DSGPU_IPSEC_MB=1
LIBS += -lIPSec_MB
endif
ifeq ($(NUMA),1)
SGPU_CPPFLAGS += -DSGPU_NUMA=1
LIBS += -lnuma
endif
ifeq ($(BLAS),1)
SGPU_CPPFLAGS += -DSGPU_BLAS=1
endif
ifeq ($(CLONES),1)
SGPU_CPPFLAGS += $(if $(SANITIZE),,-DSGPU_CLONES=1)
endif
ifeq ($(SANITIZE),address)
SGPU_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
SGPU_LDFLAGS += -fsanitize=address,undefined
else ifeq ($(SANITIZE),thread)
SGPU_CFLAGS += -fsanitize=thread -fno-omit-frame-pointer
SGPU_LDFLAGS += -fsanitize=thread
endif

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-4s %s\n' $(1) $(2);)

LIB_SOURCES := $(sort $(wildcard $(PARTS:%=lib/%/*.c) lib/device/*/*.c lib/ops/*/*.c))
COMMON_SOURCES := $(sort $(wildcard tools/common/*.c))
TOOLS := $(notdir $(sort $(wildcard tools/sgpu-*)))
UNIT_SOURCES := $(sort $(wildcard tests/unit/test_*.c))
FUZZ_SOURCES := $(sort $(wildcard tests/fuzz/fuzz_*.c))

LIB := $(BUILD)/libsgpu.a
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/obj/%.o)
COMMON_OBJECTS := $(COMMON_SOURCES:%.c=$(BUILD)/obj/%.o)
PROGRAMS := $(TOOLS:%=$(BUILD)/bin/%)
UNITS := $(UNIT_SOURCES:tests/unit/%.c=$(BUILD)/unit/%)

.DELETE_ON_ERROR:
.PHONY: all
all: $(PROGRAMS)

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(SGPU_CPPFLAGS) $(CPPFLAGS) $(SGPU_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Hot loops of the operations: more optimisation, and no contraction, so that every CPU gives the same bytes.
$(BUILD)/obj/lib/ops/%.o: CFLAGS += -O3 -ffp-contract=off

$(LIB): $(LIB_OBJECTS)
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $^

define program
$(BUILD)/bin/$(1): $(patsubst %.c,$(BUILD)/obj/%.o,$(sort $(wildcard tools/$(1)/*.c))) $(COMMON_OBJECTS) $(LIB)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(CC) $(SGPU_CFLAGS) $$(CFLAGS) $(SGPU_LDFLAGS) $$(LDFLAGS) -o $$@ $$^ $(LIBS)
endef
$(foreach tool,$(TOOLS),$(eval $(call program,$(tool))))

$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(SGPU_CFLAGS) $(CFLAGS) $(SGPU_LDFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: units
units: $(UNITS)

# Rebuild everything when the flags change.
FLAGS_NOW := $(CC) $(SGPU_CPPFLAGS) $(CPPFLAGS) $(SGPU_CFLAGS) $(CFLAGS) $(SGPU_LDFLAGS) $(LDFLAGS)
$(BUILD)/flags: force
	@mkdir -p $(@D)
	@printf '%s\n' '$(FLAGS_NOW)' | cmp -s - $@ || printf '%s\n' '$(FLAGS_NOW)' > $@
.PHONY: force
force:

.PHONY: clean
clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
