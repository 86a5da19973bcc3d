/* SPDX-License-Identifier: MIT */
/*
 * The flow of data through one function: where the addresses that were found by the thread are, and
 * which of them are used after a call that may park.
 *
 * It follows 64-bit values in general registers and in slots of the stack, forwards along every
 * path until nothing changes. A value that was found by the thread is fresh; a call that may park
 * makes all those stale that it does not destroy. Where two paths meet, a register may hold what it
 * holds on either. Using a stale value is a finding: reading or writing memory by it, passing it to
 * a call in a register, returning it, storing it elsewhere than on the stack; for the identity of a
 * thread any other use, too.
 *
 * Not followed: what is stored elsewhere than on the stack or read by such an address, vector
 * registers, the landing pads of exceptions, and a jump to a computed address, which is taken to
 * lead to each place in the function that no other jump leads to, and that follows a jump.
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
	std::int64_t slot = 0;  /* if there is no register: from the stack pointer at the call */
	bool known_slot = true; /* the stack pointer was known there */
};

/* A function keeps something over a call. */
struct finding {
	kind what = kind::none;
	address found_at = 0; /* the call, or the instruction, that found it */
	referred found_by{};  /* whom it called */
	address call_at = 0;  /* the first call that may park */
	referred called{};
	holder kept{};
	address used_at = 0;
	use how = use::dereferenced;
};

/* What calls mean, which needs a view of the whole file (graph.hpp). */
class judge
{
public:
	virtual ~judge() = default;
	/* name or target may be absent; both are if nothing is known of the callee. */
	virtual bool may_park(int name, address target) const = 0;
	virtual kind returns(int name, address target) const = 0;
	virtual bool ends(int name, address target) const = 0;
};

struct flow_result {
	std::vector<finding> findings; /* by found_at; the first use of each */
	kind returns = kind::none; /* what the function returns, if it was found by the thread */
	bool complete = true;      /* it was given up */
};

flow_result follow(const image &in, const function &from, const judge &calls);

} // namespace checking

#endif
