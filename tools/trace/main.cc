/* SPDX-License-Identifier: MIT */
/* sennit-trace: answers questions from a trace of the runtime. docs/tracing.md explains it. */
#include "chain.hpp"
#include "file.hpp"
#include "find.hpp"
#include "history.hpp"
#include "options.hpp"
#include "summary.hpp"
#include "trace.hpp"
#include "units.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <variant>

namespace
{

void report(const std::string &text)
{
	std::fprintf(stderr, "sennit-trace: %s\n", text.c_str());
}

/* Returns the exit status. */
int print(const std::string &text)
{
	if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
	    std::fflush(stdout) == 0)
		return EXIT_SUCCESS;
	report(std::string("cannot write: ") + std::strerror(errno));
	return tracing::exit_unreadable;
}

std::string answer(const tracing::trace &trace, const tracing::options &asked)
{
	if (asked.chain) {
		const auto chain = tracing::choose(trace, *asked.chain, asked.since);
		return asked.json ? to_json(trace, chain) : to_text(trace, chain);
	}
	if (asked.task) {
		const auto tasks = tracing::find_tasks(trace, *asked.task);
		if (tasks.empty())
			throw tracing::not_found{"there is no task \"" + *asked.task + "\""};
		return asked.json ? tracing::history_json(trace, tasks)
				  : tracing::history_text(trace, tasks);
	}
	const auto summary = tracing::summarize(trace, asked.top);
	return asked.json ? to_json(trace, summary) : to_text(trace, summary);
}

/* Limits the trace. Throws if the limits are wrong or leave nothing. */
void apply_limits(tracing::trace &trace, const tracing::options &asked)
{
	const auto at = [&](std::int64_t time) { return time < 0 ? trace.end + time : time; };
	const auto from = asked.from ? at(*asked.from) : std::max(trace.begin, trace.whole);
	const auto to = asked.to ? at(*asked.to) : trace.end;

	tracing::forget_what_is_uncertain(trace);
	if (from == trace.begin && to == trace.end)
		return;
	if (from > to || from > trace.end || to < trace.begin)
		throw tracing::not_found{"there is nothing between those times: it has " +
					 tracing::time_text(trace.begin) + " to " +
					 tracing::time_text(trace.end) + " ms"};
	tracing::limit(trace, from, to);
}

int run(const tracing::options &asked)
{
	const auto name = asked.file == "-" ? "standard input" : tracing::clean(asked.file);
	const auto read = tracing::read_file(asked.file);

	if (const auto *error = std::get_if<tracing::file_error>(&read)) {
		report(name + ": " + error->why);
		return tracing::exit_unreadable;
	}
	try {
		auto trace = tracing::read_trace(std::get<std::string>(read));
		for (const auto &warning : trace.warnings)
			report(name + ": " + warning + "; this is what there is");
		apply_limits(trace, asked);
		const int status = print(answer(trace, asked));
		return trace.warnings.empty() ? status : tracing::exit_unreadable;
	} catch (const tracing::not_a_trace &error) {
		report(name + " " + error.why);
	} catch (const tracing::not_found &error) {
		report(name + ": " + tracing::clean(error.why));
	}
	return tracing::exit_unreadable;
}

} // namespace

int main(int argc, char **argv)
try {
	const auto parsed = tracing::parse_options(argc, argv);

	if (const auto *finished = std::get_if<tracing::finished>(&parsed)) {
		if (finished->status == EXIT_SUCCESS)
			return print(finished->text);
		report(finished->text);
		return finished->status;
	}
	return run(std::get<tracing::options>(parsed));
} catch (const std::bad_alloc &) {
	report("there is not enough memory for this trace");
	return tracing::exit_unreadable;
} catch (const std::length_error &) {
	report("this trace is too large for a program of 32 bits");
	return tracing::exit_unreadable;
} catch (const std::exception &error) {
	report(error.what());
	return tracing::exit_unreadable;
}
