/* SPDX-License-Identifier: MIT */
/*
 * Changes to the text of a configuration that are made while the relay runs (control.hpp).
 *
 * The text stays the only form of a configuration: a change makes another text, which is read and
 * takes effect as a changed file does, with the same checks. Therefore whatever can be changed can
 * also be printed and kept, and no state beside the configuration could contradict a reload.
 *
 * toml++ writes the whole changed text, with keys sorted and without comments. If the written text
 * does not say the same as before except for the change, nothing is changed.
 *
 * The parser's recursion has no known bound: call these on a thread with a whole stack, not in a
 * task.
 */
#ifndef RELAY_EDIT_HPP
#define RELAY_EDIT_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace relay
{

struct backend_edit {
	enum class kind {
		set_weight, /* sets it to `weight` */
		drain,      /* sets the weight to 0: no new connections */
		enable,     /* sets the weight to the file's, or 1 */
		add,
		remove,
	};
	kind what = kind::set_weight;
	std::string group;
	std::string backend; /* its address, as configured */
	std::optional<std::uint32_t> weight{};
	/* Only for a backend that is added. */
	std::optional<std::uint32_t> priority{};
	std::optional<std::uint64_t> max_connections{};
};

/* Why a change cannot be made. */
struct edit_problem {
	bool is_unknown = false; /* the group or the backend is not there */
	std::string text;
};

/*
 * Returns the text with that change. file: the configuration file's text as it was last read, in
 * which `enable` finds the weight. The result is not checked; parse_config() does that.
 */
std::variant<std::string, edit_problem>
edit_config(const std::string &text, const std::string &file, const backend_edit &what);

} // namespace relay

#endif
