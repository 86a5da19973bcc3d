/* SPDX-License-Identifier: MIT */
#include "options.hpp"

#include "trace/units.hpp"

#include <sennit/base.h>

#include <CLI/CLI.hpp>

#include <utility>

namespace checking
{
namespace
{

/* Laid out by hand for a terminal of 80 columns. */
constexpr const char *help =
	R"(Usage: sennit-tls-check [OPTION]... FILE...

Names the functions of objects, archives, programs and shared libraries that
keep what belongs to a thread across a call in which a task may park: the
address of errno, of h_errno or of another thread-local variable, the thread
pointer, pthread_self(), the tables of <ctype.h>. After such a call the task may
be on another thread. The files are ELF, of x86_64 or aarch64.

Options:
  --calls WHICH   which calls may park. WHICH is
                    any       all calls, except those that are known not to
                              park, and those of functions in the same file
                              that reach no call that may (the default)
                    known     calls that libsennit-hooks replaces, calls of
                              sennit, and those of functions in the same file
                              that reach one of these
                    pointers  like known, and calls by pointers: callbacks,
                              virtual functions
  --parks NAME    functions of that name may park; may be repeated
  --never NAME    functions of that name never park; may be repeated
  --json          print JSON
  --version       print the version
  -h, --help      print this

Exit status: 0 if there is no such function, 1 if there is one, 2 if a file
cannot be read or the command line is wrong.

Example: can this library be used in tasks that have hooks?

  sennit-tls-check --calls pointers /usr/lib/x86_64-linux-gnu/libzmq.so.5
)";

/* An error in the command line, which becomes a `finished` with exit_error. */
struct usage_error {
	std::string text;
};

std::string explain(const CLI::App &app, const CLI::ParseError &error)
{
	if (dynamic_cast<const CLI::ExtrasError *>(&error)) {
		const auto extras = app.remaining();
		const std::string first = extras.empty() ? error.what() : extras.front();
		return "unknown option \"" + tracing::clean(first) +
		       "\"; expected one that --help lists";
	}
	return tracing::clean(error.what()) + " (see --help)";
}

} // namespace

std::variant<options, finished> parse_options(int argc, const char *const *argv)
try {
	options parsed;
	std::string calls = "any";
	std::vector<std::string> parks;
	std::vector<std::string> never;

	CLI::App app;
	app.set_help_flag("-h,--help");
	app.set_version_flag("--version", std::string("sennit-tls-check ") +
						  std::to_string(SN_VERSION_MAJOR) + "." +
						  std::to_string(SN_VERSION_MINOR) + "." +
						  std::to_string(SN_VERSION_PATCH));
	app.add_option("FILE", parsed.files);
	app.add_option("--calls", calls)->type_name("any|pointers|known");
	app.add_option("--parks", parks)->type_name("NAME")->allow_extra_args(false);
	app.add_option("--never", never)->type_name("NAME")->allow_extra_args(false);
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
	if (parsed.files.empty())
		throw usage_error{"no FILE; expected an object, an archive, a program or a "
				  "library (see --help)"};
	if (calls != "any" && calls != "pointers" && calls != "known")
		throw usage_error{"--calls: \"" + tracing::clean(calls) +
				  "\"; expected any, pointers or known"};
	parsed.calls.named_park = calls == "any";
	parsed.calls.pointers_park = calls != "known";
	parsed.calls.parks.insert(parks.begin(), parks.end());
	parsed.calls.never.insert(never.begin(), never.end());
	return parsed;
} catch (usage_error &error) {
	return finished{exit_error, std::move(error.text)};
}

} // namespace checking
