/* SPDX-License-Identifier: MIT */
/*
 * sennit-relay: accepts TCP connections and passes their bytes on to a backend. docs/relay.md is
 * its manual. The session (session.hpp) is its core.
 */
#include "admin/ctl.hpp"
#include "base/descriptors.hpp"
#include "base/report.hpp"
#include "config/config.hpp"
#include "config/config_places.hpp"
#include "config/options.hpp"
#include "config/tls_contexts.hpp"
#include "handover/early_signals.hpp"
#include "handover/supervisor.hpp"
#include "server/server.hpp"
#include "stats/events.hpp"

#include <sennit/debug.h>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <unistd.h>

namespace
{

/* Reports certificates that cannot be used, which are mistakes in the file. A certificate that
 * has expired or will expire soon is not one of them: it causes an event while the relay runs,
 * so that the relay starts in spite of it. */
std::optional<int> find_tls_problems(const relay::config &settings, const relay::options &options)
{
	const auto now = std::chrono::system_clock::now().time_since_epoch();
	std::vector<std::string> warnings;
	const auto problems = relay::tls_problems(
		settings, std::chrono::duration_cast<std::chrono::seconds>(now), warnings);
	for (const auto &line : problems)
		relay::report(relay::with_place(settings, options.config_file, line));
	if (!problems.empty())
		return relay::exit_usage;
	if (options.check)
		for (const auto &line : warnings)
			relay::report(options.config_file + ": warning: " + line);
	return std::nullopt;
}

void print(const relay::finished &what)
{
	std::fputs(what.text.c_str(), stdout);
	std::fflush(stdout);
	if (what.with_kernel)
		sn_kernel_report(STDOUT_FILENO);
}

} // namespace

int main(int argc, char **argv)
try {
	relay::note_early_signals();
	relay::open_standard_descriptors(); /* before anything else is opened */
	if (argc > 1 && std::string_view(argv[1]) == "ctl") {
		relay::forget_early_signals();
		return relay::run_ctl(argc - 1, argv + 1);
	}
	const auto parsed = relay::parse_options(argc, argv);
	if (const auto *finished = std::get_if<relay::finished>(&parsed)) {
		relay::forget_early_signals();
		if (finished->status == EXIT_SUCCESS)
			print(*finished);
		else
			relay::report(finished->text);
		return finished->status;
	}

	const auto &options = std::get<relay::options>(parsed);
	if (options.check)
		relay::forget_early_signals();
	relay::config settings;
	if (options.config_file.empty()) {
		settings = relay::to_config(options);
	} else {
		auto read = relay::read_config(options.config_file);
		if (const auto *errors = std::get_if<relay::config_errors>(&read)) {
			for (const auto &line : errors->lines)
				relay::report(line);
			return relay::exit_usage;
		}
		settings = std::move(std::get<relay::config>(read));
	}
	if (const auto status = find_tls_problems(settings, options))
		return *status;
	if (options.check) {
		const std::string name =
			options.config_file.empty() ? "arguments" : options.config_file;
		const auto problems = relay::file_problems(settings, name);
		for (const auto &line : problems)
			relay::report(line);
		if (!problems.empty())
			return relay::exit_usage;
		std::printf("%s: good\n", name.c_str());
		return EXIT_SUCCESS;
	}

	/* The reader of the relay's stdout or stderr may go away; the connections must survive
	 * that. */
	std::signal(SIGPIPE, SIG_IGN);
	/* If it is ignored, which a parent may have passed on, the kernel reaps children by itself:
	 * waiting for one fails, and its id may belong to another process when it is signalled. */
	std::signal(SIGCHLD, SIG_DFL);
	relay::send_events_to(settings.events);
	int link = -1;
	if (const auto status = relay::supervise(options.supervise, link))
		return *status;
	relay::raise_descriptor_limit();

	relay::shared all{.settings = std::make_shared<const relay::config>(std::move(settings)),
			  .config_file = options.config_file};
	all.inherited.take_over();
	all.tls.take_over();
	all.program = relay::this_program(argc, argv);
	all.program.link = link;
	return sn::run([&all] { return relay::serve(all); });
} catch (const std::exception &error) {
	relay::try_to_tell([&] {
		relay::emit(relay::event_kind::cannot_serve,
			    std::string("cannot run: ") + error.what());
	});
	return EXIT_FAILURE;
}
