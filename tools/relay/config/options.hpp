/* SPDX-License-Identifier: MIT */
/*
 * The command line, parsed. Nothing is opened or looked up here.
 */
#ifndef RELAY_OPTIONS_HPP
#define RELAY_OPTIONS_HPP

#include "config/config.hpp"
#include "stats/log_line.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace relay
{

/* Where connections are accepted, and where their bytes go. */
struct address_pair {
	std::string listen;
	std::string backend;
};

struct options {
	std::vector<address_pair> pairs;
	/* In the first two, zero means no limit; in the others, it disables the feature. */
	std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
	std::uint32_t retries = 4;
	std::optional<std::chrono::nanoseconds> idle_timeout{}; /* nothing: the default */
	std::chrono::seconds keepalive = std::chrono::minutes(1);
	std::chrono::nanoseconds drain = std::chrono::seconds(10);
	std::optional<std::chrono::nanoseconds> handover_drain{}; /* nothing: no limit */
	std::chrono::nanoseconds stop_delay{};
	std::chrono::nanoseconds stats_interval{};
	std::string config_file; /* replaces all other options; empty: none */
	bool check = false;      /* only validate */
	bool supervise = false;  /* run under a first process, see supervisor.hpp */
	/* Empty: none. */
	std::string admin;
	std::string access_log;
	log_format access_log_format{};
	std::string events = "stderr";
};

/* Exit status for a command line that cannot be understood. Every other failure exits with 1. */
inline constexpr int exit_usage = 2;

/* The program has nothing to run: it prints the text, on stdout for success and as one line on
 * stderr otherwise, and exits. */
struct finished {
	int status;
	std::string text;
	bool with_kernel = false; /* print sn_kernel_report() after it */
};

/* The configuration that is equivalent to these options. */
config to_config(const options &parsed);

std::variant<options, finished> parse_options(int argc, const char *const *argv);

} // namespace relay

#endif
