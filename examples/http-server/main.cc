/* SPDX-License-Identifier: MIT */
/*
 * An HTTP/1.1 server: a task for each connection, and plain blocking code in it.
 *
 *	example-http-server --listen 127.0.0.1:8080 --db 'host=127.0.0.1 user=postgres'
 *	curl -i http://127.0.0.1:8080/
 *	curl -i -d 'some text' http://127.0.0.1:8080/echo
 *	curl -i 'http://127.0.0.1:8080/db?n=7'
 *
 * connection.cc serves a connection, database.cc asks PostgreSQL. This file has the options, what
 * the paths answer, and the shutdown: after SIGTERM or ^C, what is under way has --grace seconds.
 */
#include "http.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <sennit/foreign.h>
#include <sennit/tls.hpp>
#include <variant>

static std::string_view path_of(std::string_view target)
{
	if (const auto host = target.find("://"); host != target.npos && target[0] != '/')
		target.remove_prefix(std::min(target.find('/', host + 3), target.size()));
	return target.substr(0, target.find('?'));
}

/* The value of a parameter of the query as it was sent, without decoding; "" for none. */
static std::string parameter_of(std::string_view target, std::string_view name)
{
	for (auto at = target.find('?'); at != target.npos; at = target.find('&', at + 1)) {
		const auto pair = target.substr(at + 1, target.find('&', at + 1) - at - 1);
		if (pair.starts_with(name) && pair.substr(name.size()).starts_with('='))
			return std::string(pair.substr(name.size() + 1));
	}
	return "";
}

void answer(const request &from, response &to)
{
	const auto path = path_of(from.target);
	const char *allow = path == "/echo" ? "POST" : "GET, HEAD";
	if (path != "/" && path != "/wait" && path != "/echo" && path != "/db") {
		to = {.status = 404, .body = "not found\n"};
	} else if (path == "/echo" ? from.method != HTTP_POST
				   : from.method != HTTP_GET && from.method != HTTP_HEAD) {
		to = {.status = 405, .allow = allow, .body = "wrong method\n"};
	} else if (path == "/") {
		to.body = "hello, world\n";
	} else if (path == "/wait") {
		const int ms = std::atoi(parameter_of(from.target, "ms").c_str());
		sn_sleep(std::max(0, ms) * 1000000ll);
		to.body = "waited\n";
	} else if (path == "/echo") {
		to = {.type = "application/octet-stream", .body = from.body};
	} else if (options.database.empty()) {
		to = {.status = 404, .body = "no database: --db\n"};
	} else {
		ask_database(to, parameter_of(from.target, "n"));
	}
}

static const struct option {
	std::string_view name;
	std::variant<std::string *, double *> value;
	const char *help;
} OPTIONS[] = {
	{"--listen", &options.address, "HOST:PORT, unix:PATH; port 0: any (127.0.0.1:8080)"},
	{"--connections", &options.connections, "more are answered with 503 (10000)"},
	{"--header-bytes", &options.header_bytes, "of a request, else 431 (16384)"},
	{"--body-bytes", &options.body_bytes, "of a request, else 413 (1048576)"},
	{"--header-time", &options.header_time, "seconds for a request's head, else 408 (10)"},
	{"--body-time", &options.body_time, "seconds for a request's body, else 408 (60)"},
	{"--idle-time", &options.idle_time, "seconds between requests (60)"},
	{"--write-time", &options.write_time, "seconds for a client to take answers (60)"},
	{"--grace", &options.grace, "seconds to finish after SIGTERM or SIGINT (10)"},
	{"--tls-cert", &options.certificate, "a file with a chain in PEM, to speak TLS (none)"},
	{"--tls-key", &options.key, "a file with its key, in PEM (none)"},
	{"--db", &options.database, "what /db asks, in libpq's words (none)"},
	{"--db-connections", &options.database_connections, "at most, to the database (16)"},
};

static bool set(const option &option, const char *text)
{
	if (auto *const *string = std::get_if<std::string *>(&option.value))
		return **string = text, true;
	double &number = *std::get<double *>(option.value);
	char rest;
	return std::sscanf(text, "%lf%c", &number, &rest) == 1 && number > 0 && number < 1e9;
}

/* Parses the options. If one is unknown, prints those that exist, and returns false. */
static bool parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		const auto *found = std::ranges::find(OPTIONS, argv[i], &option::name);
		if (found != std::end(OPTIONS) && argv[i + 1] && set(*found, argv[i + 1]))
			continue;
		const bool unknown = found == std::end(OPTIONS);
		const char *wrong = unknown ? "unknown option" : "no valid value of";
		if (argv[i] != std::string_view("--help"))
			std::fprintf(stderr, "http-server: %s \"%s\"\n", wrong, argv[i]);
		std::printf("usage: example-http-server [OPTION VALUE]...\n");
		for (const auto &each : OPTIONS)
			std::printf("  %-16s %s\n", each.name.data(), each.help);
		return false;
	}
	return true;
}

static std::optional<sn::tls_config> tls; /* none: connections are plain */

/* The handlers may call blocking libraries: with libsennit-hooks that takes no threads. */
static sn::task_attr attributes()
{
	return {.stack_size = tls ? SN_TLS_STACK : 0, .flags = SN_TASK_HOOKED};
}

static std::atomic<std::size_t> open_connections = 0; /* quiet ones, too */
using place = std::unique_ptr<std::atomic<std::size_t>, decltype([](auto *open) { --*open; })>;

/* The function of a connection's task. After a quiet time the connection gets a new task. Beyond
 * the limit of connections, up to 100 at a time get an answer that says so. */
struct session {
	sn::scope &connections;
	std::size_t number = ++open_connections;
	place held{&open_connections};
	sn::deadline idle_until{}; /* set after a quiet time */

	void operator()(auto &&stream)
	try {
		const bool is_new = idle_until == sn::deadline();
		if (number > options.connections + 100 ||
		    (tls && is_new && !sn::tls_server(stream, *tls)))
			return;
		idle_until = serve_connection(stream, number > options.connections, idle_until);
		/* An error, at the shutdown or for lack of memory, closes the connection,
		 * because an idle one may be closed at any time. */
		if (idle_until != sn::deadline())
			static_cast<void>(sn::go_when_readable(connections, std::move(stream),
							       std::move(*this), attributes()));
	} catch (const std::bad_alloc &) {
		/* only this connection ends */
	}
};

/* When descriptors or memory run out, accepting pauses by itself. This reports when a pause
 * begins and ends. */
static void watch_shortage()
{
	static const char *const SAYS[] = {"accepting again", "out of descriptors or memory"};
	bool is_short = false;
	for (struct sn_run_stats before{}, now{}; sn_sleep(1000000000) == 0; before = now) {
		sn_run_stats(&now);
		if ((now.accept_pauses != before.accept_pauses) != is_short)
			std::fprintf(stderr, "http-server: %s\n", SAYS[is_short = !is_short]);
	}
}

/* Accepts until the scope is cancelled, which accept() reports as an error. */
static void accept_all(sn::tcp_listener &listener, sn::scope &connections)
{
	for (;;) {
		auto stream = listener.accept().value();
		try {
			connections.go(std::bind_front(session{connections}, std::move(stream)),
				       attributes());
		} catch (const std::system_error &) {
			/* there is no memory for a task */
		}
	}
}

static int serve()
{
	auto listener = sn::tcp_listener::listen(options.address).value();
	if (!options.certificate.empty()) {
		tls.emplace(SN_TLS_SERVER);
		if (!tls->certificate(options.certificate, options.key) || !tls->alpn("http/1.1"))
			throw std::runtime_error(sn::tls_last_error());
	}
	sn::catch_signal(SIGTERM).value();
	sn::catch_signal(SIGINT).value();
	std::printf("listening on http%s://%s\n", tls ? "s" : "",
		    listener.address().value().c_str());
	sn::scope connections;
	const auto signal = [&] {
		sn::scope accepting; /* cancelled at the end */
		accepting.go([&] { accept_all(listener, connections); });
		accepting.go(watch_shortage);
		return sn::wait_signal({SIGTERM, SIGINT}); /* also ends when accepting fails */
	}();
	std::printf(signal ? "shutting down\n" : "accepting has failed\n");
	listener.close();
	closing = true;
	/* This also ends tasks that compute or block their thread, and so do not notice that
	 * they are cancelled. */
	sn::alarm limit([] { std::_Exit(std::puts("some connections were cut") < 0); });
	limit.set_at(in_seconds(options.grace));
	connections.cancel();
	static_cast<void>(connections.join());
	std::puts("all connections had ended");
	return signal ? 0 : 1;
}

int main(int argc, char **argv)
{
	std::setvbuf(stdout, nullptr, _IOLBF, 0);
	if (!parse(argc, argv))
		return argc == 2 && argv[1] == std::string_view("--help") ? 0 : 2;
	try {
		return sn::run(serve);
	} catch (const std::exception &why) {
		std::fprintf(stderr, "http-server: %s: %s\n", options.address.c_str(), why.what());
		return 1;
	}
}
