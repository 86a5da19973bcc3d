# SPDX-License-Identifier: MIT
#
# How a model is checked. The tests in this folder source this file. A model, models/<name>.pml,
# begins with a description. FLAGS are preprocessor flags that select a variant of it.
#
#   holds FLAGS [CLAIM]    spin must search the whole variant and find no error. With CLAIM, the name
#                          of a formula in the model, it checks that formula under weak fairness,
#                          otherwise assertions and deadlocks.
#   large holds FLAGS      the same for a variant of more than some three million states.
#   more holds FLAGS       the same for a variant that says more about lines and mutants which the
#                          other variants have, too. `more large holds` is both.
#   caught FLAGS [CLAIM]   a mutant: spin must find an error. A model that cannot fail where the
#                          code could is worth nothing.
#   reached                comes last: each line was executed in one of the variants that hold.
#
# With SENNIT_NO_MUTANTS=1, as in the gate, caught and more do nothing. What is left reaches every
# line. When it was chosen, it caught each mutant that all variants together catch; whoever adds
# another keeps that. holds and caught print how many states there were, and how long the search
# took. Variants that are too large for every day run only with SENNIT_LONG_MODELS=1.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

for tool in spin gcc; do
	command -v "$tool" >/dev/null || fail "$tool is not installed; scripts/setup test installs it"
done

model=$(basename "$0" _test.sh)
# The longest path that a search may follow, and the memory that it may take, in MiB. A search that
# exceeds either is incomplete, which is an error here.
depth=${SENNIT_LONG_MODELS:+5000000}
depth=${depth:-300000}
memory=${SENNIT_LONG_MODELS:+6000}
memory=${memory:-1500}
# Below some three million states, optimizing the verifier takes longer than running it. tcc
# compiles it in a thirtieth of the time that gcc takes without optimizing, and the result is as
# fast.
compile=(gcc -O0)
command -v tcc >/dev/null && compile=(tcc)
[ -z "${SENNIT_LONG_MODELS:-}" ] || compile=(gcc -O2)
# A hash table of 32 MiB. To clear the default one, of 128, takes as long as a small search.
table=${SENNIT_LONG_MODELS:+24}
table=${table:-22}
# Huge pages, where the kernel gives them, save a sixth of a search: it looks up states at random.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
touch "$scratch/executed" "$scratch/unreached"

# search FLAGS CLAIM: writes pan's report to $scratch/report. The flags stay, for a replay.
flags=()
search() {
	local -a pan_flags=(-m"$depth" -w"$table") defines=(-DMEMLIM="$memory" -DVECTORSZ=512)
	read -r -a flags <<<"$1"
	if [ -n "$2" ]; then
		pan_flags+=(-a -f -N "$2")
		defines+=(-DNFAIR=3)
	else
		defines+=(-DSAFETY)
	fi
	rm -rf "$scratch/pan" && mkdir "$scratch/pan" && cd "$scratch/pan"
	cp "$SENNIT_SOURCE_DIR/models/$model.pml" model.pml
	spin -a "${flags[@]}" model.pml >spin.log 2>&1 || { cat spin.log >&2; fail "$1: spin rejects the model"; }
	"${compile[@]}" -w "${defines[@]}" -o pan pan.c || fail "$1: the verifier does not compile"
	./pan "${pan_flags[@]}" >"$scratch/report" 2>&1 || true
}

number_of_states() {
	sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$scratch/report"
}

show_and_fail() {
	head -n 20 "$scratch/report" >&2
	if compgen -G '*.trail' >/dev/null; then
		# The numbers of states in the trail are those of the variant.
		spin -t -p -g "${flags[@]}" model.pml 2>&1 | tail -n 60 >&2
	fi
	fail "$model $*"
}

holds() {
	local start=$EPOCHREALTIME
	search "$1" "${2:-}"
	grep -q 'errors: 0$' "$scratch/report" || show_and_fail "$1 ${2:-}: does not hold"
	# "Warning: Search not completed", "max search depth too small", "reached -DMEMLIM bound"
	if grep -qiE 'not completed|too small|memlim|out of memory' "$scratch/report"; then
		show_and_fail "$1 ${2:-}: the search was not complete"
	fi
	if [ -z "${2:-}" ]; then
		# The lines that can be executed. Spin lists all of them only when it merges no
		# statements. A line of an inline stands in several places, and is reached when one
		# of them is.
		mkdir unmerged && cd unmerged
		spin -o3 -a "${flags[@]}" ../model.pml >/dev/null 2>&1
		sed -n 's/.* STATE [0-9]* - .*model\.pml:\([0-9]*\) - .*/\1/p' pan.m | sort >../lines
		cd ..
		sed -n '/"-end-"/!s/.*model\.pml:\([0-9]*\), state .*/\1/p' "$scratch/report" | sort >not
		cat not >>"$scratch/unreached"
		# One instance of each line that remains without the unreached ones.
		comm -23 lines not >>"$scratch/executed"
	fi
	report 'holds' "$start" "$@"
}

# The verifier is optimized, and has a hash table of 128 MiB.
large() {
	local compile=(gcc -O1) table=24
	"$@"
}

# A variant that the gate leaves to the nightly.
more() {
	[ -n "${SENNIT_NO_MUTANTS:-}" ] || "$@"
}

caught() {
	[ -z "${SENNIT_NO_MUTANTS:-}" ] || return 0
	local start=$EPOCHREALTIME depth=100000
	search "$1" "${2:-}"
	# Any other error, such as an index out of range, would be a mistake of the model itself.
	grep -qE '^pan:1: (assertion violated [( !]|assertion violated [a-z]|invalid end state|acceptance cycle)' \
		"$scratch/report" || show_and_fail "$1 ${2:-}: was not caught"
	report 'caught' "$start" "$@"
}

report() {
	printf '%-10s %-7s %9d states %6.1f s  %s\n' "$model" "$1" "$(number_of_states)" \
		"$(((${EPOCHREALTIME/.} - ${2/.}) / 100000))e-1" "${*:3}"
}

# Searches with a CLAIM do not count: they leave out what cannot change the formula's truth.
reached() {
	local line bad=0
	while IFS= read -r line; do
		printf '%s:%s: never executed: %s\n' "models/$model.pml" "$line" \
			"$(sed -n "${line}p" "$SENNIT_SOURCE_DIR/models/$model.pml")" >&2
		bad=1
	done < <(comm -23 <(sort -u "$scratch/unreached") <(sort -u "$scratch/executed") | sort -n)
	[ $bad = 0 ] || fail "$model has statements that are never executed"
}
