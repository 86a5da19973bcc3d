/* SPDX-License-Identifier: MIT */
#include "options.hpp"

#include "units.hpp"

#include <sennit/base.h>

#include <CLI/CLI.hpp>

#include <charconv>
#include <system_error>
#include <utility>

namespace tracing
{
namespace
{

constexpr std::size_t most_rows = 1000;

/* Laid out by hand for a terminal of 80 columns. */
constexpr const char *help =
	R"(Usage: sennit-trace [OPTION]... FILE

Answers questions from a trace that the sennit runtime has written
(sn_trace_write(), SENNIT_TRACE_FILE). FILE can be -, standard input.

Without --task or --chain it prints a summary: how busy each processor was,
and the tasks that waited for longest, were parked, kept a processor, or lost
one.

Options:
  --task NAME|ID     the history of a task, or of all tasks of that name: each
                     turn, wait and park, and what woke the task
  --chain WHAT       why something happened only then: the chain of what had to
                     happen before, back to something that came from outside.
                     WHAT is
                       EVENT       the slowest of the program's events of that
                                   name (sn_record())
                       EVENT@TIME  the event nearest to a time
                       TASK        the end of the task's last turn
                       TASK@TIME   what the task did then, or waited for
  --since EVENT      continue the chain through timers and the network, back to
                     the event with which the request began
  --from TIME        leave out everything before this
  --to TIME          leave out everything after this
  --top N            rows in each list of the summary, 1 to 1000 (default 10)
  --json             print JSON
  --version          print the version
  -h, --help         print this

A TIME is in milliseconds since the first event of the trace, as in the output,
or has another unit: 12.5, 800us, 1.2s. --from=-20 means: the last 20 ms.

Exit status: 0; 1 if the trace cannot be read, is damaged (what there is of it
is shown) or has no such task or event; 2 if the command line is wrong.

Example: requests are sometimes slow, and the program records an event
"request served" at the end of each.

  sennit-trace trace.pftrace
  sennit-trace --chain "request served" trace.pftrace
)";

/* An error in the command line, which becomes a `finished` with exit_usage. */
struct usage_error {
	std::string text;
};

std::optional<std::int64_t> read_time(const char *option, const std::string &text)
{
	if (const auto time = parse_time(text))
		return time;
	throw usage_error{std::string(option) + ": \"" + clean(text) +
			  "\" is not a time; expected one such as 12.5 (ms), 800us or 1.2s"};
}

std::string explain(const CLI::App &app, const CLI::ParseError &error)
{
	if (dynamic_cast<const CLI::ExtrasError *>(&error)) {
		const auto extras = app.remaining();
		const auto first = extras.empty() ? error.what() : extras.front();
		if (!first.starts_with('-'))
			return "unexpected \"" + clean(first) + "\"; expected one FILE";
		return "unknown option \"" + clean(first) + "\"; expected one that --help lists";
	}
	return clean(error.what()) + " (see --help)";
}

} // namespace

std::variant<options, finished> parse_options(int argc, const char *const *argv)
try {
	options parsed;
	std::string task;
	std::string chain;
	std::string from;
	std::string to;
	std::string top;

	CLI::App app;
	app.set_help_flag("-h,--help");
	app.set_version_flag("--version", std::string("sennit-trace ") +
						  std::to_string(SN_VERSION_MAJOR) + "." +
						  std::to_string(SN_VERSION_MINOR) + "." +
						  std::to_string(SN_VERSION_PATCH));
	app.add_option("FILE", parsed.file);
	app.add_option("--task", task)->type_name("NAME|ID");
	app.add_option("--chain", chain)->type_name("WHAT");
	app.add_option("--since", parsed.since)->type_name("EVENT");
	app.add_option("--from", from)->type_name("TIME");
	app.add_option("--to", to)->type_name("TIME");
	app.add_option("--top", top)->type_name("N");
	app.add_flag("--json", parsed.json);
	try {
		app.parse(argc, argv);
	} catch (const CLI::CallForHelp &) {
		return finished{0, help};
	} catch (const CLI::CallForVersion &asked) {
		return finished{0, std::string(asked.what()) + "\n"};
	} catch (const CLI::ParseError &error) {
		throw usage_error{explain(app, error)};
	}

	if (parsed.file.empty())
		throw usage_error{"no FILE; expected the name of a trace, or - (see --help)"};
	if (app.count("--task") > 0)
		parsed.task = task;
	if (app.count("--chain") > 0)
		parsed.chain = chain;
	if (parsed.task && parsed.chain)
		throw usage_error{"--task and --chain ask for different things; expected one"};
	if (app.count("--since") > 0 && !parsed.chain)
		throw usage_error{"--since says where a chain begins; expected --chain as well"};
	if (app.count("--from") > 0)
		parsed.from = read_time("--from", from);
	if (app.count("--to") > 0)
		parsed.to = read_time("--to", to);
	if (app.count("--top") > 0) {
		const char *const end = top.data() + top.size();
		const auto [rest, err] = std::from_chars(top.data(), end, parsed.top);
		if (err != std::errc{} || rest != end || parsed.top < 1 || parsed.top > most_rows)
			throw usage_error{"--top: \"" + clean(top) +
					  "\" is not a number of rows; expected 1 to 1000"};
	}
	return parsed;
} catch (usage_error &error) {
	return finished{exit_usage, std::move(error.text)};
}

} // namespace tracing
