/* SPDX-License-Identifier: MIT */
/*
 * The call graph of a file: which functions call which, and from which of them a call that may park
 * can be reached.
 *
 * Calls are found by reading each function from its beginning to its end, including jumps to other
 * functions. A function whose address is loaded from the global offset table counts as called. The
 * user chooses whether a call of an unknown function may park.
 */
#ifndef TLS_CHECK_GRAPH_HPP
#define TLS_CHECK_GRAPH_HPP

#include "calls.hpp"
#include "flow.hpp"
#include "image.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace checking
{

struct choice {
	bool named_park = true;      /* unknown functions of other files park */
	bool pointers_park = true;   /* calls by unknown pointers park */
	std::set<std::string> parks; /* the functions that park, as listed by the user */
	std::set<std::string> never; /* the functions that never park, as listed by the user */
};

class graph : public judge
{
public:
	graph(const image &in, const choice &asked);

	bool may_park(int name, address target) const override;
	kind returns(int name, address target) const override;
	bool ends(int name, address target) const override;

	/* Whether the function finds something by the thread, or calls one that returns it. */
	bool finds(const function &which) const;
	/* Records that a function returns what it has found, so that its callers find it, too.
	 * Returns the callers. */
	std::vector<const function *> set_returns(const function &which, kind what);

	/* The name of the callee; "" if it is unknown. */
	std::string callee_text(int name, address target) const;
	/* The functions by which the callee reaches a call that parks; empty if the callee
	 * itself parks. */
	std::vector<std::string> path(int name, address target) const;

	/* Functions in which capstone did not know some bytes. */
	std::size_t unread() const { return unread_; }

private:
	struct edge {
		int name = none;
		address target = 0;
	};
	struct node {
		std::vector<edge> edges;
		std::vector<std::size_t> callers;
		bool finds = false;
		bool ends = true;
		bool parks = false;
		std::size_t through = 0; /* the edge to the call that parks */
		kind returns = kind::none;
	};

	std::size_t index_of(address target) const; /* functions().size() if there is none */
	std::vector<std::string> names_of(int name, address target) const;
	parking by_name(int name, address target) const;
	bool unknown_parks(int name) const;
	const referred *word_of(const step &reads,
				const std::int64_t (&values)[register_count]) const;
	void read(std::size_t which);
	void spread();

	const image &image_;
	const choice &asked_;
	std::vector<node> nodes_;
	std::size_t unread_ = 0;
};

} // namespace checking

#endif
