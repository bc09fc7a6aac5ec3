# SPDX-License-Identifier: Apache-2.0
# sgpu: `make help` lists the targets and the variables.
CC ?= cc
AR ?= ar
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
DESTDIR ?=
BUILD ?= build
V ?= 0
# Fast tiers, each can be switched off with 0: libipsec-mb for AES-GCM, a BLAS for gemm, wider vectors by CPU.
IPSEC_MB ?= $(call have_header,intel-ipsec-mb.h)
BLAS ?= 1
CLONES ?= 1
# NUMA placement through libnuma.
NUMA ?= $(call have_header,numa.h)
# The CUDA device, a shared object of its own: built where nvcc is.
NVCC ?= $(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
CUDA ?= $(if $(NVCC),1,0)
# Kernels do not depend on CFLAGS or SANITIZE, so that several builds can share them.
CUDA_BUILD ?= $(BUILD)/cuda
# address (with undefined), thread, or fuzzer (what `make fuzz` builds with).
SANITIZE ?=
# 0: demo, check, fuzz, interop and bench install no packages.
DEPS ?= 1
FUZZ_SECONDS ?= 20
# Restricts check and fuzz: TESTS="seal test_kt128", TESTS="fuzz_tar".
TESTS ?=

# What --version names, from git, or what git left in the script when it packed the source.
SGPU_COMMIT ?= $(shell scripts/commit.sh)

have_header = $(if $(wildcard $(addsuffix /$(1),/usr/include $(subst :, ,$(CPATH)))),1,0)
spaces = $(if $(word 2,$(1)),$(error $(2) '$(1)' contains a space, which make cannot handle))
$(call spaces,$(PREFIX),PREFIX)$(call spaces,$(BUILD),BUILD)
$(if $(filter-out /%,$(PREFIX)),$(error PREFIX '$(PREFIX)' is not an absolute path))
# Asked once, not for every file.
SGPU_COMMIT := $(or $(SGPU_COMMIT),unknown)
override SANITIZE := $(patsubst 1,address,$(filter-out 0,$(SANITIZE)))
$(if $(filter-out address thread fuzzer,$(SANITIZE)),$(error SANITIZE is address, thread or fuzzer, not '$(SANITIZE)'))
$(if $(filter-out 0,$(CUDA)),$(if $(NVCC),,$(error CUDA=1 needs nvcc: give NVCC=, or CUDA=0)))

VERSION := $(shell sed -n 's/.*define SGPU_VERSION "\(.*\)"/\1/p' include/sgpu/version.h)
PARTS := base host manifest files crypto batch device ops stage transfer ring channel run remote attest dsa bench
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith -Wundef -Wformat=2
# Fortify needs optimisation, and the sanitizers do its work better.
HARDEN := -fstack-protector-strong -fPIC -fvisibility=hidden \
	$(if $(SANITIZE),,$(if $(filter -O -O1 -O2 -O3 -Os -Og,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
SGPU_CPPFLAGS := -D_GNU_SOURCE -Iinclude -Ilib -Itools -Itools/common
# No contraction: every CPU must give the same bytes. The prefix map keeps the folder out of the objects.
SGPU_CFLAGS := -std=c11 -pthread -ffp-contract=off -ffile-prefix-map="$(CURDIR)"=. $(WARN) $(HARDEN)
# The build id names the very bytes, in quotes, too.
SGPU_LDFLAGS := -pie -pthread -Wl,-z,relro,-z,now,--build-id=sha1,--as-needed
LIBS := -ljansson -lcrypto -lm -ldl

is_built = $(if $(filter-out 0,$($(1))),1)
FEATURES := IPSEC_MB BLAS NUMA CLONES CUDA
LIBS += $(if $(call is_built,IPSEC_MB),-lIPSec_MB) $(if $(call is_built,NUMA),-lnuma)
SANITIZE_address := -fsanitize=address,undefined
SANITIZE_thread := -fsanitize=thread
SANITIZE_fuzzer := -fsanitize=fuzzer-no-link,address,undefined
ifneq ($(SANITIZE),)
SGPU_CFLAGS += $(SANITIZE_$(SANITIZE)) -fno-sanitize-recover=all -fno-omit-frame-pointer
SGPU_LDFLAGS += $(SANITIZE_$(SANITIZE))
endif

silent := $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
say = $(if $(filter 1,$(V)),,@$(if $(silent),,printf '  %-4s %s\n' $(1) $(2);))

LIB_SOURCES := $(sort $(filter-out $(PARTS:%=lib/%/cuda/%),$(wildcard $(PARTS:%=lib/%/*.c) $(PARTS:%=lib/%/*/*.c))))
CUDA_SOURCES := $(sort $(wildcard $(PARTS:%=lib/%/cuda/*.c)))
KERNEL_SOURCES := $(sort $(wildcard $(PARTS:%=lib/%/cuda/kernels/*.cu)))
COMMON_SOURCES := $(sort $(wildcard tools/common/*.c))
RUNNER_SOURCES := $(sort $(wildcard tools/runner/*.c))
# A tool's folder without a source is one that is not written yet.
TOOLS := $(sort $(patsubst tools/%/,%,$(dir $(wildcard tools/sgpu*/main.c))))
TOOL_SOURCES := $(sort $(wildcard $(TOOLS:%=tools/%/*.c)))
# Those of tests/gpu need a GPU: check-gpu builds and runs them.
UNIT_SOURCES := $(sort $(wildcard tests/unit/test_*.c))
GPU_SOURCES := $(sort $(wildcard tests/gpu/test_*.c))
FUZZ_SOURCES := $(sort $(wildcard tests/fuzz/fuzz_*.c))
BENCH_SOURCES := $(sort $(wildcard tests/bench/*.c))

LIB := $(BUILD)/libsgpu.a
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
PROGRAMS := $(TOOLS:%=$(BUILD)/bin/%)
# For tests alone: these look for the kernel's files where variables of the environment say.
TEST_PROGRAMS := $(patsubst %,$(BUILD)/test/bin/sgpu-%,bench measure run enclave serve worker)
UNITS := $(UNIT_SOURCES:tests/unit/%.c=$(BUILD)/unit/%)
GPU_UNITS := $(GPU_SOURCES:tests/gpu/%.c=$(BUILD)/unit/%)
GPU_TOOLS := $(patsubst tests/gpu/%.c,$(BUILD)/gpu/%,$(filter-out $(GPU_SOURCES),$(wildcard tests/gpu/*.c)))
FUZZERS := $(FUZZ_SOURCES:tests/fuzz/%.c=$(BUILD)/fuzz/%)
# What an example draws with needs libpng.
EXAMPLES := $(if $(filter 1,$(call have_header,png.h)),$(BUILD)/examples/brain-report) $(BUILD)/examples/train \
	$(BUILD)/examples/fashion-train $(BUILD)/examples/parameter-server $(BUILD)/examples/parameter-client $(BUILD)/examples/channel
BENCHES := $(BENCH_SOURCES:tests/bench/%.c=$(BUILD)/bench/%) $(if $(filter-out 0,$(CUDA)),$(BUILD)/bench/bandwidth_bare)
# What sgpu-bench measures is what the example shows, and what sgpu does.
PARAMETER_SOURCES := $(patsubst %,examples/parameter-server/%.c,model serve sockets load)
NETWORK_SOURCES := examples/fashion-train/network.c
# Found beside the programs, as ../lib/sgpu/sgpu-cuda.so.
PLUGIN := $(if $(filter-out 0,$(CUDA)),$(BUILD)/lib/sgpu/sgpu-cuda.so)
# What runs modules of the CPU device is sgpu-enclave, under another name. Its confinement leaves a sanitizer no room, so a
# build with one has a program of its own for that, without.
HOST_SOURCES := $(sort $(wildcard tools/module-host/*.c))
HOST := $(BUILD)/test/bin/sgpu-module-host
HOST_OBJECTS := $(patsubst %.c,$(BUILD)/plain/%.o,$(HOST_SOURCES) tools/sgpu-enclave/filter.c tools/sgpu-enclave/landlock.c)
COMPLETIONS := $(foreach tool,$(TOOLS),$(BUILD)/completions/bash/$(tool) $(BUILD)/completions/zsh/_$(tool) \
	$(BUILD)/completions/fish/$(tool).fish)

# Manual pages of the library: a header's prototypes and comments.
MAN3 := $(patsubst include/sgpu/%.h,$(BUILD)/man/sgpu_%.3,$(filter-out %/version.h,$(wildcard include/sgpu/*.h)))

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all programs test-programs units gpu-units benches examples completions
all: programs completions $(MAN3)
programs: $(PROGRAMS) $(PLUGIN)
test-programs: $(TEST_PROGRAMS)
units: $(UNITS) test-programs $(HOST) $(PLUGIN)
gpu-units: units $(GPU_UNITS) $(GPU_TOOLS)
benches: $(BENCHES)
examples: $(EXAMPLES)
completions: $(COMPLETIONS)

$(BUILD)/man/sgpu_%.3: include/sgpu/%.h scripts/man3.sh
	@mkdir -p $(@D) && scripts/man3.sh $* >$@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(BUILD)/headers
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(SGPU_CPPFLAGS) $(SWITCHES) $(CPPFLAGS) $(SGPU_CFLAGS) $(CFLAGS) $(MORE) -MMD -MP -c -o $@ $<

# The files that know of a feature: they alone are built again when it is switched. -Wundef finds one that is missing.
USES_IPSEC_MB := $(call objects,lib/crypto/aead.c lib/crypto/aead_ipsec_mb.c)
USES_BLAS := $(call objects,lib/ops/gemm.c)
USES_NUMA := $(call objects,lib/device/cuda/pinned.c)
USES_CLONES := $(call objects,lib/crypto/measure.c \
	tests/unit/test_kt128.c $(wildcard lib/crypto/kec*.c lib/crypto/kt*.c lib/ops/*.c lib/ops/c*/*.c tests/*/test_ops_*.c \
	tests/harness/ops_*.c tests/fuzz/fuzz_expression.c tests/fuzz/fuzz_map.c))
USES_CUDA := $(call objects,lib/device/cuda.c)
KNOW_COMMIT := $(call objects,tools/common/version.c tools/sgpu-bench/build.c)
define feature
$(USES_$(1)): SWITCHES += -DSGPU_$(1)=$(or $(call is_built,$(1)),0)
$(USES_$(1)) $(KNOW_COMMIT): $(BUILD)/with/$(1)
$(BUILD)/with/$(1): force
	$$(call remember,'$($(1))')
endef
$(foreach name,$(FEATURES),$(eval $(call feature,$(name))))

$(BUILD)/obj/tools/sgpu-manifest/verb_ops.o $(BUILD)/obj/tests/unit/test_schema.o: tools/sgpu-manifest/schema.json

$(BUILD)/obj/tools/sgpu-bench/verb_compare.o: tools/sgpu-bench/published.json
$(BUILD)/obj/tools/sgpu-bench/naive.o: tests/bench/naive.py

# What the page of sgpu-bench report has besides the results.
$(BUILD)/report/tail.html: scripts/report-page.sh $(wildcard tools/sgpu-bench/report/*)
	@mkdir -p $(@D) && scripts/report-page.sh $(@D)
$(BUILD)/obj/tools/sgpu-bench/verb_report.o: MORE = -I$(BUILD)/report
$(BUILD)/obj/tools/sgpu-bench/verb_report.o: $(BUILD)/report/tail.html

# Two objects know the commit, so that another one does not build everything again.
$(KNOW_COMMIT): MORE = -DSGPU_COMMIT='"$(SGPU_COMMIT)"' -DSGPU_FLAGS='"$(subst ",,$(CFLAGS))"' \
	$(if $(PLUGIN),-DSGPU_CUDA_COMPILER='"nvcc $(shell $(NVCC) --version | sed -n 's/^Cuda.*, V//p')"' \
	-DSGPU_CUDA_FLAGS='"$(subst ",,$(CUDA_ARCH) $(NVCCFLAGS))"') \
	-DSGPU_WITH='"$(strip $(foreach name,$(FEATURES),$(if $(call is_built,$(name)),$(name))))"' \
	-DSGPU_WITHOUT='"$(strip $(foreach name,$(FEATURES),$(if $(call is_built,$(name)),,$(name))))"'
$(KNOW_COMMIT): $(BUILD)/commit
$(BUILD)/commit: force
	$(call remember,'$(SGPU_COMMIT)')

# Hot loops of the operations: more optimisation, unless somebody asked for another level.
$(BUILD)/obj/lib/ops/%.o: MORE = $(patsubst -O2,-O3,$(filter -O2,$(CFLAGS)))

$(LIB): $(call objects,$(LIB_SOURCES)) $(BUILD)/members
	$(call say,AR,$@)rm -f $@.new && $(AR) rcs $@.new $(filter %.o,$^) && mv -f $@.new $@

# A program that is running goes on running while a new one takes its name.
link = $(call say,LD,$@)mkdir -p $(@D) && $(CC) $(SGPU_CFLAGS) $(CFLAGS) $(SGPU_LDFLAGS) $(LDFLAGS) $(1) -o $@.new \
	$(filter %.o,$^) $(filter %.a,$^) $(LIBS) $(LDLIBS) && mv -f $@.new $@

# ---- the CUDA device ----
# The toolkit that nvcc is of, by whatever link it is called.
CUDA_HOME ?= $(abspath $(dir $(or $(realpath $(NVCC)),$(NVCC)))..)
# Machine code for A100 and H100/H200, and PTX that newer devices compile by themselves; all from one intermediate code.
CUDA_ARCH ?= -arch=compute_80 -code=sm_80,sm_90,compute_80
# The digest of device code is in every quote, so the folder must stay out of it: no -lineinfo (NVCCFLAGS=-lineinfo for
# profiles), and a short name of the source, since nvcc puts a checksum of the whole one into names of static functions.
NVCC_FLAGS = -O3 -fmad=false -std=c++17 --threads 0 $(CUDA_ARCH) -Iinclude -Ilib -D_GNU_SOURCE \
	-Xcompiler -fPIC,-fvisibility=hidden,-Wall,-O2 -Xcudafe --display_error_number,--orig_src_path_name,$<
$(CUDA_BUILD)/%.o: %.cu $(CUDA_BUILD)/flags
	$(call say,NVCC,$<)mkdir -p $(@D) && $(NVCC) $(NVCC_FLAGS) $(NVCCFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $<
$(CUDA_BUILD)/flags: force
	$(call remember,'$(NVCC) $(NVCC_FLAGS) $(NVCCFLAGS)')
KERNEL_OBJECTS := $(KERNEL_SOURCES:%.cu=$(CUDA_BUILD)/%.o)
CUDA_OBJECTS := $(call objects,$(CUDA_SOURCES))
$(CUDA_OBJECTS): MORE = -isystem $(CUDA_HOME)/include
# It takes what it needs of the library with it, and shows one symbol: where its table is.
$(BUILD)/lib/sgpu/sgpu-cuda.so: $(CUDA_OBJECTS) $(KERNEL_OBJECTS) $(LIB)
	$(call say,LD,$@)mkdir -p $(@D) && $(CXX) -shared $(SANITIZE_$(SANITIZE)) -Wl,-z,relro,-z,now $(if $(SANITIZE),,-Wl,-z,defs) -Wl,--exclude-libs,ALL \
		-Wl,--wrap=__cudaRegisterFunction $(LDFLAGS) -o $@.new $(filter %.o,$^) $(LIB) -L$(CUDA_HOME)/lib64 -lcudart_static -Wl,--as-needed $(LIBS) -lrt \
		$(LDLIBS) && mv -f $@.new $@

$(BUILD)/bin/sgpu-enclave $(BUILD)/test/bin/sgpu-enclave: LIBS += -lseccomp
$(BUILD)/bin/sgpu-enclave $(BUILD)/test/bin/sgpu-enclave: $(call objects,$(HOST_SOURCES))
$(BUILD)/bin/sgpu-bench $(BUILD)/test/bin/sgpu-bench: $(call objects,$(PARAMETER_SOURCES) $(NETWORK_SOURCES) tools/sgpu/job.c)
# These open a person's keys.
$(BUILD)/bin/sgpu $(BUILD)/bin/sgpu-measure $(BUILD)/test/bin/sgpu-measure: $(call objects,tools/sgpu-seal/passphrase.c)
# What reads people's files. The other programs have no zlib.
$(BUILD)/bin/sgpu-manifest $(BUILD)/bin/sgpu-seal $(BUILD)/unit/test_files $(BUILD)/unit/test_files_write \
	$(BUILD)/interop/array_file $(patsubst %,$(BUILD)/fuzz/fuzz_%,nifti npy npz idx): LIBS += -lz
# A tool takes of these what it needs.
COMMON := $(BUILD)/common.a
$(COMMON): $(call objects,$(COMMON_SOURCES)) $(BUILD)/members
	$(call say,AR,$@)rm -f $@.new && $(AR) rcs $@.new $(filter %.o,$^) && mv -f $@.new $@
# Those that have batches run, or ask a server for something, also take of these.
RUNNER := $(BUILD)/runner.a
$(RUNNER): $(call objects,$(RUNNER_SOURCES)) $(BUILD)/members
	$(call say,AR,$@)rm -f $@.new && $(AR) rcs $@.new $(filter %.o,$^) && mv -f $@.new $@
USES_RUNNER := $(patsubst %,sgpu-%,bench enclave measure run seal serve worker) sgpu
define program
$(BUILD)/bin/$(1) $(BUILD)/test/bin/$(1): $(call objects,$(sort $(wildcard tools/$(1)/*.c))) \
		$(if $(filter $(1),$(USES_RUNNER)),$(RUNNER)) $(COMMON) $(LIB)
	$$(call link)
endef
$(foreach tool,$(TOOLS),$(eval $(call program,$(tool))))

ifeq ($(SANITIZE),)
$(HOST): $(BUILD)/bin/sgpu-enclave
	@mkdir -p $(@D) && ln -sf ../../bin/sgpu-enclave $@
else
$(call objects,tools/sgpu-enclave/info.c tools/sgpu-enclave/enclave.c): MORE = -DSGPU_HOST_PATH='"$(abspath $(HOST))"'
$(BUILD)/bin/sgpu-enclave $(BUILD)/test/bin/sgpu-enclave: | $(HOST)
plain = $(filter-out $(SANITIZE_$(SANITIZE)) -fno-sanitize-recover=all,$(1))
$(BUILD)/plain/tools/module-host/host.o: MORE = -Dhost_main=main
$(BUILD)/plain/%.o: %.c $(BUILD)/flags | $(BUILD)/headers
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(SGPU_CPPFLAGS) $(SWITCHES) $(CPPFLAGS) $(call plain,$(SGPU_CFLAGS)) $(CFLAGS) $(MORE) -ffunction-sections \
		-fdata-sections -MMD -MP -c -o $@ $<
# Functions of other files are named only by what it does not reach.
$(HOST): $(HOST_OBJECTS)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(call plain,$(SGPU_CFLAGS)) $(CFLAGS) $(call plain,$(SGPU_LDFLAGS)) $(LDFLAGS) \
		-Wl,--gc-sections -o $@.new $^ -lseccomp -ldl $(LDLIBS) && mv -f $@.new $@
endif

# What tests share.
HARNESS := $(BUILD)/harness.a
$(HARNESS): $(call objects,$(sort $(wildcard tests/harness/*.c)))
	$(call say,AR,$@)rm -f $@.new && $(AR) rcs $@.new $^ && mv -f $@.new $@
$(BUILD)/obj/tests/%.o: MORE = -Itests/harness
# Under the checkers of memory most of the time to build would go into making the tests themselves quick.
$(BUILD)/obj/tests/unit/%.o: MORE = -Itests/harness $(if $(filter address fuzzer,$(SANITIZE)),-O0)
$(BUILD)/obj/tests/gpu/%.o: MORE = -Itests/harness -Itests/unit

# The server's two sides, each against counterparts that lie.
SERVER_UNITS := $(patsubst %,$(BUILD)/unit/test_%,supervisor serve_worker serve_batches)
SERVER_OBJECTS := $(call objects,$(filter-out %/main.c,$(wildcard tools/sgpu-serve/*.c tools/sgpu-enclave/*.c)))
$(SERVER_UNITS): LIBS += -lseccomp
$(SERVER_UNITS): $(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(SERVER_OBJECTS) $(RUNNER) $(COMMON) $(HARNESS) $(LIB)
	$(call link)

$(BUILD)/unit/test_sgpu_job: $(call objects,tools/sgpu/job.c)

# They start it.
$(BUILD)/unit/test_device_modules: | $(HOST)

# Objects come before archives, so this function is taken in place of the library's.
$(UNITS) $(TEST_PROGRAMS): $(call objects,tests/harness/host_root.c)
$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(HARNESS) $(LIB)
	$(call link)

$(BUILD)/unit/%: $(BUILD)/obj/tests/gpu/%.o $(HARNESS) $(LIB)
	$(call link)
$(BUILD)/gpu/%: $(BUILD)/obj/tests/gpu/%.o $(HARNESS) $(LIB)
	$(call link)

$(BUILD)/bench/%: $(BUILD)/obj/tests/bench/%.o $(HARNESS) $(LIB)
	$(call link)

$(BUILD)/bench/bandwidth_bare: $(CUDA_BUILD)/tests/bench/bandwidth_bare.o
	$(call say,LD,$@)mkdir -p $(@D) && $(NVCC) -o $@ $<

$(BUILD)/interop/%: $(BUILD)/obj/tests/interop/%.o $(LIB)
	$(call link)

$(BUILD)/examples/train: $(BUILD)/obj/examples/session/train.o $(LIB)
	$(call link)

$(BUILD)/examples/channel: $(BUILD)/obj/examples/channel/channel.o $(LIB)
	$(call link)

$(BUILD)/examples/fashion-train: $(call objects,examples/fashion-train/job.c $(NETWORK_SOURCES)) $(LIB)
	$(call link)

$(BUILD)/examples/parameter-%: $(BUILD)/obj/examples/parameter-server/%.o $(call objects,$(PARAMETER_SOURCES)) $(LIB)
	$(call link)

vpath %.c $(wildcard examples/*)
$(BUILD)/examples/%: %.c $(BUILD)/flags
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(SGPU_CFLAGS) $(CFLAGS) $(SGPU_LDFLAGS) $(LDFLAGS) -o $@ $< -lpng

$(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(HARNESS) $(LIB)
	$(call link,-fsanitize=fuzzer)

$(BUILD)/completions/bash/%: $(BUILD)/bin/% scripts/completions.sh
	@mkdir -p $(@D) && scripts/completions.sh bash $< > $@
$(BUILD)/completions/zsh/_%: $(BUILD)/bin/% scripts/completions.sh
	@mkdir -p $(@D) && scripts/completions.sh zsh $< > $@
$(BUILD)/completions/fish/%.fish: $(BUILD)/bin/% scripts/completions.sh
	@mkdir -p $(@D) && scripts/completions.sh fish $< > $@

# Files that are written anew only when what they say changes: everything is built again when the flags differ, and
# the library when a source has gone or a program is linked with other libraries. `settings` is for the test of the installation: what to give make so that it
# finds everything built.
SETTINGS := SGPU_COMMIT CC NVCC CUDA CFLAGS CPPFLAGS LDFLAGS LDLIBS SANITIZE IPSEC_MB BLAS CLONES NUMA PARTS
remember = @mkdir -p $(@D); printf '%s\n' $(1) | cmp -s - $@ || printf '%s\n' $(1) > $@
FLAGS_NOW := $(CC) $(SGPU_CPPFLAGS) $(CPPFLAGS) $(SGPU_CFLAGS) $(CFLAGS) $(SGPU_LDFLAGS) $(LDFLAGS) $(LDLIBS)
LIBS_NOW := $(LIBS) -lseccomp -lz
$(BUILD)/flags: force | $(BUILD)/settings
	$(call remember,'$(FLAGS_NOW)')
$(BUILD)/members: force
	$(call remember,'$(LIB_SOURCES) $(COMMON_SOURCES) $(RUNNER_SOURCES) $(LIBS_NOW)')
$(BUILD)/settings: force
	$(call remember,$(foreach name,$(SETTINGS),'$(name)=$($(name))'))
.PHONY: force
force:

# Before the first file is compiled: says which package is missing, in place of a page of errors.
$(BUILD)/headers:
	@mkdir -p $(@D)
	@SGPU_CUDA_HOME='$(if $(PLUGIN),$(CUDA_HOME))' scripts/check-headers.sh $(CC) $(CPPFLAGS)
	@touch $@

# ---- what runs things: the packages first, then make again, so that it sees what was installed ----
install_deps = $(if $(filter 0,$(DEPS)),,@scripts/install-deps.sh $(1))
again = +@$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

.PHONY: demo check check-gpu reach tcb interop fuzz mutate sanitize bench benchmarks
demo:
	$(call install_deps,build demo)
	$(again) programs examples
	@SGPU_BUILD='$(BUILD)' scripts/demo.sh

check:
	$(call install_deps,build demo check)
	$(again) check-now

check-gpu:
	@NVCC='$(if $(filter-out 0,$(CUDA)),$(NVCC))' scripts/check-gpu.sh --probe
	$(call install_deps,build check)
	$(again) check-gpu-now

# Sections that nothing refers to are left out, and nothing is inlined: what is in the programs then is what they reach.
# Where there is no plug-in, they hold all that its sources name.
reach: PLUGIN_NAMES = $(if $(PLUGIN),,$(shell grep -ohE '\bsgpu_[a-z0-9_]+' $(CUDA_SOURCES) | sort -u))
reach:
	$(call install_deps,build)
	$(again) reach-now BUILD='$(BUILD)-reach' CUDA_BUILD='$(CUDA_BUILD)' SANITIZE= \
		CFLAGS='-O0 -w -ffunction-sections -fdata-sections' LDFLAGS='-Wl,--gc-sections $(PLUGIN_NAMES:%=-u %)'

tcb:
	$(call install_deps,build)
	$(again) $(BUILD)/bin/sgpu-enclave $(PLUGIN)
	@scripts/tcb.sh '$(BUILD)'

interop:
	$(call install_deps,build interop)
	$(again) programs test-programs '$(BUILD)/interop/kt128_digest' '$(BUILD)/interop/array_file' '$(BUILD)/examples/fashion-train'
	@SGPU_BUILD='$(BUILD)' scripts/interop.sh

# The Python package, which needs the programs in the PATH.
.PHONY: wheel
wheel:
	@mkdir -p '$(BUILD)' && python3 scripts/wheel.py '$(BUILD)'

fuzz:
	$(call install_deps,build fuzz)
	$(again) fuzz-now BUILD='$(BUILD)-fuzz' CC=clang SANITIZE=fuzzer

# Plants mistakes, one at a time, and runs the tests that should notice. Takes the better part of an hour.
mutate:
	$(call install_deps,build demo check)
	@MAKE_ARGS='CC="$(CC)"' $(if $(SGPU_VECTORS),SGPU_VECTORS='$(SGPU_VECTORS)') scripts/mutate.py $(TESTS)

sanitize:
	$(call install_deps,build demo check)
	$(again) check-now BUILD='$(BUILD)-address' SANITIZE=address
	$(again) check-now BUILD='$(BUILD)-thread' SANITIZE=thread

bench:
	$(call install_deps,build bench)
	$(again) programs
	@$(BUILD)/bin/sgpu-bench run $(BENCH_OPTIONS)
	@SGPU_BUILD='$(BUILD)' scripts/bench.sh

# All cases on this machine, into docs/benchmarks.md, and all records there into a page for a browser.
benchmarks:
	$(call install_deps,build)
	$(again) programs
	@SGPU_BUILD='$(BUILD)' scripts/benchmarks.sh $(BENCH_OPTIONS)

# Published test vectors beside the checkout; the tests that want them skip without.
SGPU_VECTORS ?= $(abspath $(wildcard ../shared/vectors))
TEST_ENV = SGPU_BUILD='$(BUILD)' SGPU_SANITIZE='$(SANITIZE)' \
	$(if $(SGPU_VECTORS),SGPU_VECTORS='$(SGPU_VECTORS)')

.PHONY: check-now check-gpu-now reach-now fuzz-now
check-now: all units examples $(BUILD)/bench/tenants
	@$(TEST_ENV) scripts/run-tests.sh $(TESTS)

check-gpu-now: programs gpu-units examples
	@$(TEST_ENV) NVCC='$(NVCC)' scripts/check-gpu.sh $(TESTS)

# sgpu-bench keeps nothing in the library, nor does an example that came later than these.
reach-now: $(filter-out %/sgpu-bench,$(PROGRAMS)) $(PLUGIN) \
		$(patsubst %,$(BUILD)/examples/%,train fashion-train parameter-server parameter-client)
	@scripts/reach.sh '$(BUILD)' $^

fuzz-now: $(FUZZERS)
	@SGPU_BUILD='$(BUILD)' scripts/run-fuzz.sh $(FUZZ_SECONDS) $(or $(TESTS),$(notdir $(FUZZERS)))

# ---- install ----
.PHONY: install uninstall dist release clean format help
install: all $(LIB)
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(LIBS)|' sgpu.pc.in > $(BUILD)/sgpu.pc
	@scripts/install-files.sh install '$(BUILD)' '$(DESTDIR)' '$(PREFIX)'

uninstall:
	@scripts/install-files.sh uninstall '$(BUILD)' '$(DESTDIR)' '$(PREFIX)'

dist:
	@mkdir -p '$(BUILD)'
	git archive --format=tar.gz --prefix=sgpu-$(VERSION)/ -o '$(BUILD)/sgpu-$(VERSION).tar.gz' HEAD

# RELEASE_KEY: the project's key, a file of sgpu-seal keygen.
release: all dist
	@[ -n '$(RELEASE_KEY)' ] || { echo "make release: RELEASE_KEY names no key" >&2; exit 2; }
	@'$(BUILD)/bin/sgpu-measure' release --build '$(BUILD)' -k '$(RELEASE_KEY)' -o '$(BUILD)/sgpu-$(VERSION).digests.json'
	@echo '$(BUILD)/sgpu-$(VERSION).digests.json'

clean:
	rm -rf $(BUILD) $(BUILD)-address $(BUILD)-thread $(BUILD)-fuzz $(BUILD)-reach

define HELP
targets
  all        programs in $(BUILD)/bin, library, completions (the default)
  demo       install what is missing, build, run the examples on real data
  check      install what is missing, build, run all tests
  sanitize   all tests under address, undefined and thread sanitizers
  fuzz       every fuzz target for FUZZ_SECONDS, with clang
  mutate     plant mistakes one at a time: do the tests notice? (most of an hour)
  interop    against other implementations of the same formats
  wheel      the Python package, as a file for pip
  reach      which functions of the library does no program reach?
  tcb        the trusted code: files and lines that are linked into sgpu-enclave
  check-gpu  all tests on a GPU, under compute-sanitizer too, and a short bench;
             fails where there is no GPU or no nvcc, since nothing is tested then
  bench      figures, as ratios measured in one run
  benchmarks measure all cases, write the tables of docs/benchmarks.md, and show
             all its records on a page, $(BUILD)/benchmarks/benchmarks.html
  install    into DESTDIR/PREFIX; uninstall removes the same files
  dist       a tar.gz of the committed tree
  release    dist, and the digests of the build, signed by RELEASE_KEY
  format     lay out all C and CUDA as .clang-format says
  clean      remove what was built
variables (make NAME=value)
  CC=$(CC) CFLAGS='$(CFLAGS)' CPPFLAGS LDFLAGS LDLIBS
  PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)
  BUILD=$(BUILD)     folder to build in
  V=1             show the commands
  SANITIZE=       address (with undefined) or thread
  IPSEC_MB=$(IPSEC_MB) BLAS=$(BLAS) CLONES=$(CLONES) NUMA=$(NUMA) CUDA=$(CUDA)   0 leaves it out
  DEPS=0          install no packages
  TESTS=          only these: TESTS="seal test_kt128"; of check-gpu also memcheck,
                  racecheck, bench; of mutate the names of mistakes
  FUZZ_SECONDS=$(FUZZ_SECONDS)
  BENCH_OPTIONS=  of sgpu-bench run, or of scripts/benchmarks.sh
endef
export HELP
# The second pass lays out what the first one moved when it wrapped comments.
format:
	@git ls-files '*.c' '*.h' '*.cu' '*.cuh' | xargs clang-format -i && git ls-files '*.c' '*.h' '*.cu' '*.cuh' | xargs clang-format -i

help:
	@printf '%s\n' "$$HELP"

-include $(patsubst %.o,%.d,$(call objects,$(LIB_SOURCES) $(COMMON_SOURCES) $(RUNNER_SOURCES) $(TOOL_SOURCES) $(HOST_SOURCES) $(UNIT_SOURCES) \
	$(wildcard tests/gpu/*.c tests/harness/*.c) \
	$(FUZZ_SOURCES) $(BENCH_SOURCES) $(CUDA_SOURCES) $(wildcard examples/*/*.c))) $(KERNEL_OBJECTS:.o=.d) \
	$(HOST_OBJECTS:.o=.d)
