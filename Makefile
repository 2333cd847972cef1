# The front door. Every target installs what is missing, configures and builds only what it needs.
.DEFAULT_GOAL := help
NUMBERS := 01 02 03 04 05 06 07 08 09
EXERCISES := 01 02 03 04 05 06
STEP_TARGETS := $(NUMBERS:%=step%)
LAB_TARGETS := $(NUMBERS:%=lab%)
SANITIZE_TARGETS := $(NUMBERS:%=sanitize%)
PROFILE_TARGETS := $(NUMBERS:%=profile%)
EXERCISE_TARGETS := $(EXERCISES:%=exercise%)
ARGS ?=
# an interactive shell has a LINES of its own
LAB_ARGS := $(if $(filter command,$(origin LINES)),--lines)
export CMAKE_ARGS GPU JOBS CHANGE

help: ## this list
	@awk -F': ## ' '/^[^\t].*: ## / { n = split($$1, word, " "); sub("%", "NN", word[n]); \
	  printf "  make %-16s %s\n", word[n], $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  NN is 01 to 09. ARGS="…" goes to the program: make step03 ARGS="--shape 100x100x100 --list".'
	@echo '  GPU=OFF leaves the CUDA programs out, GPU=ON insists on them. JOBS=2 limits the build.'

run: ## step 09 answers a question with the model that ships here; PROMPT="…" asks your own
	@tools/step.sh step 09 $(if $(filter command,$(origin PROMPT)),--prompt "$$PROMPT") $(ARGS)

test: ## every test: on the CPU executor, and on the GPU where there is one
	@tools/test.sh

$(STEP_TARGETS): step%: ## the CUDA program of a step, or the executor's where there is no usable GPU
	@tools/step.sh step $* $(ARGS)

$(LAB_TARGETS): lab%: ## the same kernels on the CPU executor; LINES=1 prints their source lines with counts
	@tools/step.sh lab $* $(LAB_ARGS) $(ARGS)

lab: ## a kernel of your own on the CPU executor: make lab KERNEL=my.cuh
	@tools/lab_kernel.sh '$(KERNEL)' $(LAB_ARGS) $(ARGS)

$(EXERCISE_TARGETS): exercise%: ## what you wrote in NN_*/exercise/ (01 to 06), tested; EXERCISE=2 for one of the three
	@tools/exercise.sh $* $(EXERCISE)

exercise-answers: ## proves the exercises: answers pass, stubs and wrong answers fail
	@tools/setup.sh build $(CMAKE_ARGS) && tools/build.sh build exercise_answers exercise_stubs && \
	  tools/exercise_answers.sh --stubs build

env_check: ## what is wrong with driver, toolkit or architecture, and the fix
	@tools/env_check.sh $(ARGS)

ladder: ## all steps, one table and a plot
	@tools/setup.sh build $(CMAKE_ARGS) && python3 tools/ladder.py $(ARGS)

$(SANITIZE_TARGETS): sanitize%: ## compute-sanitizer (memcheck, racecheck, synccheck, initcheck) over a step's tests
	@tools/sanitize.sh $*

$(PROFILE_TARGETS): profile%: ## ncu's counters for each rung of a step, and what bounds it; CHANGE="…" for the journal
	@tools/setup.sh build $(CMAKE_ARGS) && python3 tools/profile_step.py $* $(ARGS)

journal: ## what every profile run found: version, rung, change, SM %, DRAM %, time
	@python3 tools/journal.py

counters: ## the counters of steps 01 to 04 into results/, for the lessons
	@tools/setup.sh build $(CMAKE_ARGS) && python3 tools/profile_step.py 01 02 03 04 --save $(ARGS)

sizes: ## the GEMMs of steps 01 to 04 from 256 to 8192 into results/, for the plots
	@tools/setup.sh build $(CMAKE_ARGS) && python3 tools/sizes.py

peers: ## PyTorch, torch.compile, FlashAttention-2 and cuDNN at the shapes of steps 05 and 06 into results/ (needs PyTorch)
	@python3 tools/peers.py $(ARGS)

loops: ## count the instructions of the kernels' main loops into results/ (nvcc and cuobjdump, no GPU)
	@python3 tools/loops.py $(ARGS)

plots: ## draw results/plots/*.svg from results/*.json (needs matplotlib)
	@python3 tools/plots.py

plot07: ## draw the error of an angle in fp16, bf16, fp32 over the position (needs matplotlib)
	@python3 tools/plot_angles.py

readme: ## write code, tables, figures and plots into the lessons
	@python3 tools/sync_readme.py

gpu-check: ## build, all tests, sanitizers and benches on this GPU; writes results/
	@python3 tools/gpu_check.py $(ARGS)

format: ## clang-format every source file
	@git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs clang-format -i

format-check: ## stop at a file that clang-format would change
	@git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror

clean: ## remove the build folders
	@rm -rf build build-*

.PHONY: help run test lab env_check ladder journal counters sizes peers loops plots plot07 readme gpu-check format format-check clean \
        $(STEP_TARGETS) $(LAB_TARGETS) $(SANITIZE_TARGETS) $(PROFILE_TARGETS) $(EXERCISE_TARGETS) exercise-answers
