/* SPDX-License-Identifier: MIT */
/*
 * The flow of data through one function: where it keeps the addresses that it has found by the
 * current thread, and which of them it uses after a call that may park.
 *
 * It follows 64-bit values in general registers and in slots of the stack, forwards along every
 * path until nothing changes. A value that was found by the thread is fresh at first; a call that
 * may park makes all values stale that it does not destroy. Where two paths meet, a register may
 * hold its value of either path. The use of a stale value is a finding: reading or writing memory
 * through it, passing it to a call in a register, returning it, or storing it elsewhere than on the
 * stack. For the identity of a thread, any other use is one, too.
 *
 * It does not follow values that are stored elsewhere than on the stack or read through such an
 * address, vector registers, and the landing pads of exceptions. A jump to a computed address is
 * assumed to lead to each place in the function that follows a jump and that no other jump leads
 * to.
 */
#ifndef TLS_CHECK_FLOW_HPP
#define TLS_CHECK_FLOW_HPP

#include "calls.hpp"
#include "code.hpp"
#include "image.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace checking
{

enum class use {
	dereferenced,
	passed,
	returned,
	stored,
	looked_at,
};

/* Where a value is kept over a call: in a register, or in a slot of the stack. */
struct holder {
	int reg = none;
	std::int64_t slot = 0;  /* if reg is none: from the stack pointer at the call */
	bool known_slot = true; /* false: the stack pointer was not known there */
};

/* Something that a function keeps over a call that may park. */
struct finding {
	kind what = kind::none;
	address found_at = 0; /* the call, or the instruction, that found it */
	referred found_by{};  /* the function that was called for it */
	address call_at = 0;  /* the first call that may park */
	referred called{};
	holder kept{};
	address used_at = 0;
	use how = use::dereferenced;
};

/* Answers what a call does, for which the whole file must be known (graph.hpp). */
class judge
{
public:
	virtual ~judge() = default;
	/* The name or the target may be unknown; both are if nothing is known of the callee. */
	virtual bool may_park(int name, address target) const = 0;
	virtual kind returns(int name, address target) const = 0;
	virtual bool ends(int name, address target) const = 0;
};

struct flow_result {
	std::vector<finding> findings; /* by found_at; the first use of each */
	kind returns = kind::none;     /* whose address the function returns */
	bool complete = true;          /* false: the function was given up */
};

flow_result follow(const image &in, const function &from, const judge &calls);

} // namespace checking

#endif
