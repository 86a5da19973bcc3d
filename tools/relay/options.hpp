/* SPDX-License-Identifier: MIT */
/*
 * The command line: what the relay is asked to do. Nothing is opened or looked up here.
 */
#ifndef RELAY_OPTIONS_HPP
#define RELAY_OPTIONS_HPP

#include "config.hpp"

#include <chrono>
#include <string>
#include <variant>
#include <vector>

namespace relay
{

/* Where connections are accepted, and where their bytes go. */
struct route {
	std::string listen;
	std::string backend;
};

struct options {
	std::vector<route> routes;
	/* Zero means no limit in the first two, none at all in the others. */
	std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
	std::chrono::nanoseconds idle_timeout = std::chrono::minutes(10);
	std::chrono::seconds keepalive = std::chrono::minutes(1);
	std::chrono::nanoseconds drain = std::chrono::seconds(10);
	std::chrono::nanoseconds stats_interval{};
	std::string config_file; /* instead of everything else; empty: none */
	bool check = false;      /* only validates it */
	/* Empty: none. */
	std::string admin;
	std::string access_log;
	bool access_log_json = false;
};

/* Exit status for a command line that cannot be understood; everything else that fails is 1. */
inline constexpr int exit_usage = 2;

/* The program is done before it began: with text for stdout, or one line for stderr. */
struct finished {
	int status;
	std::string text;
};

/* The configuration that the one-liner stands for. */
config to_config(const options &parsed);

std::variant<options, finished> parse_options(int argc, const char *const *argv);

} // namespace relay

#endif
