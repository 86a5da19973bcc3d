/* SPDX-License-Identifier: MIT */
#include "admin/ctl.hpp"

#include "backends/names.hpp"
#include "base/address.hpp"
#include "base/duration.hpp"
#include "base/report.hpp"
#include "base/token.hpp"
#include "config/options.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <CLI/CLI.hpp>

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace relay
{
namespace
{

constexpr const char *help_of_ctl = R"(Usage: sennit-relay ctl [OPTION]... COMMAND [ARGUMENT]...

Asks a running relay, and changes it. A change lasts until its file is read
again: SIGHUP, a handover and a restart begin with the file.

Commands:
  status                         the backends, with their states and connections
  config                         the configuration in effect, as TOML
  drain GROUP BACKEND            give it no new connections
  enable GROUP BACKEND           give it the weight that it has in the file
  weight GROUP BACKEND N         give it another weight, 0 to 1000
  add GROUP BACKEND              add a backend: [--weight N] [--priority N]
                                   [--max-connections N]
  remove GROUP BACKEND           remove it; its open connections stay
  kill FILTER...                 reset the open connections that fit each of:
                                   --listener NAME, --group NAME,
                                   --backend ADDRESS, --endpoint ADDRESS,
                                   --client ADDRESS; or --all
  reload                         read the file again, as SIGHUP does
  json, metrics                  the admin server's answer to /json, /metrics

GROUP and BACKEND are written as in the configuration file.

Options:
  --at ADDRESS        the relay's `control` (default: $SENNIT_RELAY_CONTROL, or
                      unix:/run/sennit-relay/control.sock)
  --token-file FILE   has the token of the relay's control_token_file in its
                      first line (default: $SENNIT_RELAY_TOKEN_FILE)
  --timeout DURATION  give up after so long (default 30s)
  -h, --help          print this

Exit status: 0 if the command succeeded, 1 if it failed, 2 if the command line
is wrong.
)";

struct request {
	std::string at;
	std::string token_file;
	std::chrono::nanoseconds timeout = std::chrono::seconds(30);
	std::string method = "POST";
	std::string path;
	std::vector<std::pair<std::string, std::string>> parameters;
};

struct answer {
	int status = 0;
	std::string body;
};

std::string encode(std::string_view text)
{
	constexpr char digits[] = "0123456789ABCDEF";
	std::string out;
	for (const char c : text) {
		const auto byte = static_cast<unsigned char>(c);
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    c == '-' || c == '.' || c == '_' || c == '~' || c == ':' || c == '/')
			out += c;
		else
			(((out += '%') += digits[byte >> 4]) += digits[byte & 15]);
	}
	return out;
}

std::string to_text(const request &what, const std::string &token)
{
	std::string target = what.path;
	char mark = '?';
	for (const auto &[name, value] : what.parameters) {
		target += mark + name + '=' + encode(value);
		mark = '&';
	}
	return what.method + ' ' + target + " HTTP/1.1\r\nHost: localhost\r\n" +
	       (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") +
	       "Connection: close\r\n\r\n";
}

/* Returns nothing if the bytes are not a complete HTTP/1 answer. */
std::optional<answer> parse(std::string_view bytes)
{
	constexpr std::string_view version = "HTTP/1.1 ";
	constexpr std::string_view length_field = "\r\nContent-Length: ";
	const auto end = bytes.find("\r\n\r\n");
	if (!bytes.starts_with(version) || end == bytes.npos)
		return std::nullopt;
	const std::string_view head = bytes.substr(0, end);
	const std::string_view body = bytes.substr(end + 4);
	const auto number = [](std::string_view text) {
		std::size_t read = 0;
		std::from_chars(text.data(), text.data() + text.size(), read);
		return read;
	};
	const auto length = head.find(length_field);
	if (length == head.npos || number(head.substr(length + length_field.size())) != body.size())
		return std::nullopt;
	return answer{static_cast<int>(number(head.substr(version.size()))), std::string(body)};
}

/* Sends the request, and returns the answer. Call it in a task. */
std::optional<answer> ask(const request &what, const std::string &token, std::string &why)
{
	const auto until = what.timeout.count() == 0 ? sn::no_deadline : sn::after(what.timeout);
	const auto fail = [&](const std::error_code &error) {
		why = what.at + ": " + error.message();
		return std::nullopt;
	};
	const sn::scope limit(until);
	auto connected = sn::tcp::connect(what.at, until);
	if (!connected)
		return fail(connected.error());
	connected->set_read_deadline(until);
	connected->set_write_deadline(until);
	if (const auto sent = connected->write_all(to_text(what, token)); !sent)
		return fail(sent.error());
	std::string got;
	char chunk[16384];
	for (;;) {
		const auto n = connected->read(chunk, sizeof chunk);
		if (!n)
			return fail(n.error());
		if (*n == 0)
			break;
		got.append(chunk, *n);
	}
	auto parsed = parse(got);
	if (!parsed)
		why = what.at + ": its answer is not that of a control server";
	return parsed;
}

/* Sends the request in a runtime of its own, prints the answer, and returns the exit status. */
int perform(const request &what)
{
	std::string token;
	std::string why;
	if (!what.token_file.empty() && !read_token(what.token_file, token, why)) {
		report(why);
		return EXIT_FAILURE;
	}
	std::optional<answer> got;
	const int status = sn::run([&] {
		got = ask(what, token, why);
		return EXIT_SUCCESS;
	});
	if (status != EXIT_SUCCESS)
		return status;
	if (!got) {
		report(why);
		return EXIT_FAILURE;
	}
	if (got->status == 200) {
		std::fputs(got->body.c_str(), stdout);
		return std::fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	for (std::string_view rest = got->body; !rest.empty();) {
		const auto end = std::min(rest.find('\n'), rest.size());
		report(rest.substr(0, end));
		rest.remove_prefix(std::min(end + 1, rest.size()));
	}
	return EXIT_FAILURE;
}

/* An option or argument of a subcommand, and the parameter that it becomes in the request. */
struct argument {
	const char *option; /* in the form that CLI11 expects */
	const char *parameter;
	bool is_required;
};

struct command {
	const char *name;
	const char *method;
	const char *path;
	std::vector<argument> arguments;
};

const std::vector<command> &commands()
{
	static const argument group{"group", "group", true};
	static const argument backend{"backend", "backend", true};
	static const std::vector<command> all = {
		{"status", "GET", "/backends", {}},
		{"config", "GET", "/config", {}},
		{"json", "GET", "/json", {}},
		{"metrics", "GET", "/metrics", {}},
		{"names", "GET", "/names", {}}, /* for completion */
		{"drain", "POST", "/backends/drain", {group, backend}},
		{"enable", "POST", "/backends/enable", {group, backend}},
		{"weight",
		 "POST",
		 "/backends/weight",
		 {group, backend, {"weight", "weight", true}}},
		{"add",
		 "POST",
		 "/backends/add",
		 {group,
		  backend,
		  {"--weight", "weight", false},
		  {"--priority", "priority", false},
		  {"--max-connections", "max_connections", false}}},
		{"remove", "POST", "/backends/remove", {group, backend}},
		{"kill",
		 "POST",
		 "/connections/kill",
		 {{"--listener", "listener", false},
		  {"--group", "group", false},
		  {"--backend", "backend", false},
		  {"--endpoint", "endpoint", false},
		  {"--client", "client", false}}},
		{"reload", "POST", "/reload", {}},
	};
	return all;
}

/* The value of an environment variable; empty if it is not set. */
std::string variable(const char *name)
{
	const char *const value = std::getenv(name);
	return value ? value : "";
}

/* CLI11's error in one line that names the offending argument, or those that are missing. */
std::string explain_misuse(const CLI::App &app, const CLI::ParseError &error)
{
	const auto chosen = app.get_subcommands();
	const std::string name = chosen.empty() ? "" : chosen.front()->get_name();

	if (dynamic_cast<const CLI::RequiredError *>(&error)) {
		std::string expected;
		for (const auto &each : commands())
			for (const auto &wanted : each.arguments)
				if (name == each.name && wanted.is_required)
					expected += std::string(" ") + wanted.option;
		return name + ": an argument is missing; expected" + expected;
	}
	if (!dynamic_cast<const CLI::ExtrasError *>(&error))
		return error.what();
	const auto extras = app.remaining(true);
	for (const auto &each : extras)
		if (each.starts_with('-'))
			return "unknown option \"" + each + "\"";
	if (extras.empty())
		return error.what();
	return name.empty() ? "unknown command \"" + extras.front() + "\""
			    : name + ": unexpected argument \"" + extras.front() + "\"";
}

int usage(const std::string &text)
{
	report("ctl: " + text + " (see sennit-relay ctl --help)");
	return exit_usage;
}

} // namespace

int run_ctl(int argc, const char *const *argv)
{
	request what;
	what.at = variable("SENNIT_RELAY_CONTROL");
	if (what.at.empty())
		what.at = default_control;
	what.token_file = variable("SENNIT_RELAY_TOKEN_FILE");
	std::string timeout;
	bool wants_help = false;
	bool all = false;
	std::vector<std::vector<std::string>> values(commands().size());
	std::vector<std::vector<const CLI::Option *>> given(commands().size());

	CLI::App app;
	app.set_help_flag();
	app.require_subcommand(0, 1);
	app.add_option("--at", what.at);
	app.add_option("--token-file", what.token_file);
	app.add_option("--timeout", timeout);
	app.add_flag("-h,--help", wants_help);
	for (std::size_t i = 0; i < commands().size(); i++) {
		const auto &each = commands()[i];
		auto *const sub = app.add_subcommand(each.name);
		sub->set_help_flag();
		sub->fallthrough();
		values[i].resize(each.arguments.size());
		for (std::size_t k = 0; k < each.arguments.size(); k++)
			given[i].push_back(sub->add_option(each.arguments[k].option, values[i][k])
						   ->required(each.arguments[k].is_required));
		if (std::string_view(each.name) == "kill")
			sub->add_flag("--all", all);
	}
	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError &error) {
		if (!wants_help)
			return usage(explain_misuse(app, error));
	}
	if (wants_help) {
		std::fputs(help_of_ctl, stdout);
		return EXIT_SUCCESS;
	}
	const auto chosen = app.get_subcommands();
	if (chosen.empty())
		return usage("no command");
	if (const auto problem = address_problem(what.at, address_use::connect))
		return usage("--at: \"" + what.at + "\": " + *problem);
	if (!timeout.empty()) {
		const auto read = parse_duration(timeout);
		if (!read)
			return usage("--timeout: \"" + timeout + "\" is not a duration");
		what.timeout = *read;
	}
	for (std::size_t i = 0; i < commands().size(); i++) {
		const auto &each = commands()[i];
		if (chosen.front()->get_name() != each.name)
			continue;
		what.method = each.method;
		what.path = each.path;
		for (std::size_t k = 0; k < each.arguments.size(); k++) {
			if (given[i][k]->count() == 0)
				continue;
			/* As of a script's variable that is not set: without it, the command would
			 * concern more than was meant. */
			if (values[i][k].empty())
				return usage(std::string(each.name) + ": " +
					     each.arguments[k].option + " is empty");
			what.parameters.emplace_back(each.arguments[k].parameter, values[i][k]);
		}
	}
	if (all)
		what.parameters.emplace_back("all", "1");
	return perform(what);
}

} // namespace relay
