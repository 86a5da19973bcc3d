#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Labels: musl
#
# The typed channels of C. A program that uses all of them compiles without a warning as strict C11,
# and runs. One that confuses types does not compile.
# shellcheck source-path=SCRIPTDIR/../support
source "$(dirname "$0")/../support/lib.sh"

cat >"$scratch/typed.c" <<'C'
#include <sennit/sennit.h>

struct point {
	int x, y;
};
typedef sn_chan_of(struct point) points;
struct worker {
	points in;
	sn_chan_of(sn_chan_of(int)) answers;
};

static int cases(sn_chan_of(int) numbers, points p)
{
	struct point at = {0, 0};
	int number = 0;
	struct sn_case each[] = {
		sn_case_recv(numbers, &number),
		sn_case_send(p, &(struct point){3, 4}),
		sn_case_recv(p, NULL),
	};

	return sn_select(each, 1, SN_TRY) == 0 && number == 1 &&
	       sn_select(each + 1, 1, SN_NO_DEADLINE) == 0 && sn_recv(p, &at) == 0 && at.y == 4;
}

int main(void)
{
	sn_chan_of(int) numbers = NULL, again = NULL;
	sn_chan_of(const char *) texts = NULL;
	struct worker w = {NULL, NULL};
	struct point at = {0, 0};
	const char *text = NULL;
	int number = 0;

	if (sn_chan_new_of(&numbers, 2) || sn_chan_new_of(&texts, 1) || sn_chan_new_of(&w.in, 1) ||
	    sn_chan_new_of(&w.answers, 1) || sn_chan_new_of(&again, -1) != -22)
		return 1;
	if (sn_send(numbers, 1) || sn_try_send(numbers, 2) || sn_send_until(numbers, 1, 3) != -110)
		return 2;
	if (sn_send(w.in, (struct point){1, 2}) || sn_recv_until(w.in, &at, 1) || at.x != 1)
		return 3;
	if (!cases(numbers, w.in) || sn_send(texts, "text") || sn_try_recv(texts, &text) || !text)
		return 4;
	if (sn_send(w.answers, numbers) || sn_recv(w.answers, &again) || sn_recv(again, &number) ||
	    number != 2 || sn_chan_len(sn_untyped(again)) != 0)
		return 5;
#ifdef MISTAKE
	MISTAKE;
#endif
	sn_chan_close_of(numbers);
	sn_chan_unref_of(numbers);
	sn_chan_unref_of(texts);
	sn_chan_unref_of(w.in);
	sn_chan_unref_of(w.answers);
	return 0;
}
C

sanitizer=()
case $SENNIT_SANITIZE in
address) sanitizer=(-fsanitize=address -fsanitize=undefined) ;;
thread) sanitizer=(-fsanitize=thread) ;;
esac
compile() {
	"$CC" "${cflags[@]}" "${sanitizer[@]}" -std=c11 -Wall -Wextra -Wpedantic -pedantic-errors -Werror \
		-I "$SENNIT_SOURCE_DIR/include" "$@" "$scratch/typed.c"
}

compile -c -o "$scratch/typed.o" ||
	fail "the program does not compile"
"$CC" "${cflags[@]}" "${sanitizer[@]}" -o "$scratch/typed" "$scratch/typed.o" \
	"$SENNIT_BUILD_DIR/src/libsennit.a" "${libraries[@]}"
"${launcher[@]}" "$scratch/typed" || fail "the program exits with $?"

refused() {
	if compile -fsyntax-only "-DMISTAKE=$1" 2>"$scratch/log"; then
		fail "compiles, although it is a mistake: $1"
	fi
}
refused 'sn_send(w.in, 4)'
refused 'sn_send(numbers, "text")'
refused 'sn_recv(numbers, &at)'
refused 'sn_recv(numbers, &text)'
refused 'sn_try_recv(texts, &number)'
refused 'numbers = texts'
refused 'cases(w.in, w.in)'
refused 'struct sn_case c = sn_case_recv(numbers, &at); (void)c'
refused 'struct sn_case c = sn_case_send(numbers, &at); (void)c'
refused 'sn_chan_new_of(numbers, 4)'
refused 'sn_chan_close(numbers)'
refused 'sn_chan_close_of(&number)'
