/* SPDX-License-Identifier: MIT */
/* Shared by the parts of the server: requests, answers, options, and calls between the parts. */
#pragma once

#include <atomic>
#include <llhttp.h>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>
#include <string>
#include <string_view>
#include <vector>

struct request {
	int method = 0;     /* HTTP_GET and the like */
	std::string target; /* "/db?n=7", or "http://host/db?n=7" */
	std::vector<std::pair<std::string, std::string>> headers;
	std::string body;
};

struct response {
	int status = 200;
	const char *type = "text/plain", *allow = "";
	std::string body;
};

/* Set before the first connection. Times are in seconds. */
inline struct settings {
	std::string address = "127.0.0.1:8080", database, certificate, key;
	double database_connections = 16, connections = 10000, header_bytes = 16384,
	       body_bytes = 1048576, header_time = 10, body_time = 60, idle_time = 60,
	       write_time = 60, grace = 10;
} options;

inline std::atomic<bool> closing = false; /* tells clients that the connection ends */

inline sn::deadline in_seconds(double time)
{
	return sn::now() + std::chrono::nanoseconds(std::int64_t(time * 1e9));
}

/* main.cc: answers a request, in the connection's task. May block, park, and throw, which gives
 * 500. */
void answer(const request &from, response &to);

/* connection.cc: serves a connection; with refused it only answers 503. May park and throw. When it
 * is cancelled, it ends as soon as no request is under way. Returns sn::deadline() when the
 * connection is to be closed. Otherwise it is quiet: nothing of the next request has come. Then it
 * returns the end of the idle time, also set as the stream's read deadline. When there is something
 * to read, the caller continues by another call with that time as idle_until. */
sn::deadline serve_connection(sn::tcp &stream, bool refused, sn::deadline idle_until);

/* database.cc: answers with the square of the parameter, or with an error. May park. */
void ask_database(response &to, const std::string &parameter);
