/* SPDX-License-Identifier: MIT */
/*
 * Machine code in a form that does not depend on the machine: what an instruction does to 64-bit
 * registers and to memory, and where it goes next.
 *
 * Registers are small numbers, in the machine's own order. An effect on a register that these steps
 * cannot express (on half of it, a shift, a vector) is act::forget.
 */
#ifndef TLS_CHECK_CODE_HPP
#define TLS_CHECK_CODE_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace checking
{

using address = std::uint64_t;

constexpr int register_count = 32;
constexpr int none = -1;

/* The address of a memory operand. */
struct operand {
	int base = none;
	int index = none;
	std::int64_t displacement = 0; /* the address itself if it is fixed */
	bool fixed = false;     /* there is no base: relative to the instruction, or absolute */
	bool of_thread = false; /* relative to the thread pointer (%fs) */
	unsigned width = 0;     /* bytes that are read or written, 0 if unknown */
};

enum class act {
	forget,   /* to = something unknown */
	copy,     /* to = from */
	constant, /* to = number, which may be an address */
	function, /* to = the address of the function with the name `number` (image.hpp) */
	add,      /* to = from + number */
	mix,      /* to = computed from `from` and `other`, either of them (add, select) */
	load,     /* to = memory */
	store,    /* memory = from, or something unknown */
	touch,    /* reads or writes memory otherwise */
	look,     /* reads `from` otherwise, such as in a comparison */
	thread,   /* to = the thread pointer */
	realign,  /* to, the stack pointer, is moved by an unknown distance */
};

struct step {
	act what = act::forget;
	int to = none;
	int from = none;
	int other = none;
	std::int64_t number = 0;
	operand memory{};
};

enum class going {
	on,     /* to the next instruction */
	jump,   /* to target, or to `via` */
	branch, /* to target or on */
	call,   /* target or `via` */
	ret,
	stop, /* nowhere: a trap */
};

/* The value that a jump or a call goes to, if there is no target. */
struct destination {
	int reg = none;
	operand memory; /* if there is no register */
	bool known = false;
};

constexpr std::size_t most_steps = 12;

struct instruction {
	address at = 0;
	unsigned size = 0;
	going next = going::on;
	address target = 0;
	bool has_target = false;
	destination via;
	int name = none;         /* of the callee, from a relocation or a stub (image.hpp) */
	bool descriptor = false; /* calls a thread-local's descriptor, by its relocation */
	bool padding = false;    /* a nop or int3, as between functions */
	std::array<step, most_steps> steps;
	std::size_t count = 0;

	address end() const { return at + size; }
	/* Adds a step. It never fails: an instruction with more effects than there is room for
	 * gets act::forget instead. */
	void add(const step &more)
	{
		if (count < most_steps)
			steps[count++] = more;
	}
};

} // namespace checking

#endif
