/* SPDX-License-Identifier: MIT */
#include "server/keyed_problem.hpp"

#include "base/in_time.hpp"
#include "config/config_places.hpp"

#include <exception>
#include <utility>

namespace relay
{

/* Parsing needs a larger stack than a task has, and only the text of the configuration. */
std::string with_key(const std::string &file, const config &of, const std::string &key,
		     std::string problem)
{
	if (file.empty())
		return problem;
	try {
		config text;
		text.text = of.text;
		const std::string keyed = key + ": " + problem;
		auto placed = call_in_time([text = std::move(text), file, keyed] {
			return with_place(text, file, keyed);
		});
		if (placed)
			return *std::move(placed);
	} catch (const std::exception &) {
		/* Without a thread or memory there is no place, but the problem must not be
		 * lost. */
	}
	return problem;
}

} // namespace relay
