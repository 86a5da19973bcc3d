/* SPDX-License-Identifier: MIT */
/* sennit-tls-check: finds code that takes one thread for another. docs/tls-check.md explains it. */
#include "check.hpp"
#include "options.hpp"
#include "text.hpp"
#include "trace/units.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace
{

void report(const std::string &text)
{
	std::fprintf(stderr, "sennit-tls-check: %s\n", text.c_str());
}

bool print(const std::string &text)
{
	if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
	    std::fflush(stdout) == 0)
		return true;
	report(std::string("cannot write: ") + std::strerror(errno));
	return false;
}

/* Prints what is wrong with a file on stderr. Returns whether anything is. */
bool complain(const checking::file_report &about)
{
	bool wrong = false;

	if (!about.error.empty()) {
		report(tracing::clean(about.file) + ": " + about.error);
		wrong = true;
	}
	for (const auto &each : about.members) {
		const auto name = checking::title(about, each);
		if (!each.error.empty()) {
			report(name + " " + each.error);
			wrong = true;
		}
		if (each.unread > 0)
			report(name + ": " + tracing::count_text(each.unread) +
			       " functions have instructions that capstone does not know, and "
			       "may not have been read whole");
		if (each.given_up > 0) {
			report(name + ": " + tracing::count_text(each.given_up) +
			       " functions are too large, and were not read to the end");
			wrong = true;
		}
	}
	return wrong;
}

int run(const checking::options &asked)
{
	std::vector<checking::file_report> all;
	bool found = false;
	bool wrong = false;

	for (const auto &file : asked.files) {
		auto one = checking::check_file(file, asked.calls);
		wrong |= complain(one);
		for (const auto &each : one.members)
			found |= !each.rows.empty();
		if (!asked.json && !print(to_text(one)))
			return checking::exit_error;
		if (asked.json)
			all.push_back(std::move(one));
	}
	if (asked.json && !print(to_json(all)))
		return checking::exit_error;
	return wrong ? checking::exit_error : found ? checking::exit_found : EXIT_SUCCESS;
}

} // namespace

int main(int argc, char **argv)
try {
	const auto parsed = checking::parse_options(argc, argv);

	if (const auto *finished = std::get_if<checking::finished>(&parsed)) {
		if (finished->status == EXIT_SUCCESS)
			return print(finished->text) ? EXIT_SUCCESS : checking::exit_error;
		report(finished->text);
		return finished->status;
	}
	return run(std::get<checking::options>(parsed));
} catch (const std::bad_alloc &) {
	report("there is not enough memory for this file");
	return checking::exit_error;
} catch (const std::exception &error) {
	report(error.what());
	return checking::exit_error;
}
