#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The vdso and clock layers work in a program that has no C library, and need no symbol of one.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../support/lib.sh"

src=$SENNIT_SOURCE_DIR/src
# libgcc has the 64-bit arithmetic that the machine lacks.
"$CC" "${cflags[@]}" -std=gnu11 -O2 -ffreestanding -fno-stack-protector -DSENNIT_NO_LIBC \
	-Wall -Wextra -Werror -nostdlib -static -I "$src" -I "$SENNIT_SOURCE_DIR/include" \
	"$src"/vdso/*.c "$src"/clock/*.c "$SENNIT_SOURCE_DIR/tests/clock/no_libc.c" -lgcc \
	-o "$scratch/no_libc"
"$scratch/no_libc" || fail "check $?"
