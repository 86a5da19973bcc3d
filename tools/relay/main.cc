/* SPDX-License-Identifier: MIT */
/*
 * sennit-relay: accepts TCP connections and passes their bytes on to a backend. docs/relay.md is
 * its manual. The session (session.hpp) is its core.
 */
#include "access_log.hpp"
#include "config.hpp"
#include "descriptors.hpp"
#include "options.hpp"
#include "report.hpp"
#include "server.hpp"

#include <sennit/sennit.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <variant>

int main(int argc, char **argv)
try {
	const auto parsed = relay::parse_options(argc, argv);
	if (const auto *finished = std::get_if<relay::finished>(&parsed)) {
		if (finished->status == EXIT_SUCCESS)
			std::fputs(finished->text.c_str(), stdout);
		else
			relay::report(finished->text);
		return finished->status;
	}

	const auto &options = std::get<relay::options>(parsed);
	relay::config settings;
	if (options.config_file.empty()) {
		settings = relay::to_config(options);
	} else {
		auto read = relay::read_config(options.config_file);
		if (const auto *errors = std::get_if<relay::config_errors>(&read)) {
			for (const auto &line : *errors)
				relay::report(line);
			return relay::exit_usage;
		}
		settings = std::move(std::get<relay::config>(read));
	}
	if (options.check) {
		const std::string name =
			options.config_file.empty() ? "arguments" : options.config_file;
		if (const auto problem = relay::log_target_problem(settings.access_log)) {
			relay::report(name + ": " + *problem);
			return relay::exit_usage;
		}
		std::printf("%s: good\n", name.c_str());
		return EXIT_SUCCESS;
	}

	/* The reader of our stdout or stderr may go away; the connections must survive that. */
	std::signal(SIGPIPE, SIG_IGN);
	relay::raise_descriptor_limit();

	relay::shared all{.settings = std::make_shared<const relay::config>(std::move(settings)),
			  .config_file = options.config_file};
	all.inherited.take_over();
	all.program = relay::this_program(argc, argv);
	return sn::run([&all] { return relay::serve(all); });
} catch (const std::exception &error) {
	relay::report(std::string("cannot run: ") + error.what());
	return EXIT_FAILURE;
}
