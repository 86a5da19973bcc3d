/* SPDX-License-Identifier: MIT */
/* What the parts of the server share: requests, answers, limits, calls between the parts. */
#pragma once

#include <atomic>
#include <llhttp.h>
#include <mutex>
#include <sennit/sennit.hpp>
#include <string>
#include <string_view>
#include <unordered_set>

struct request {
	int method = 0;     /* HTTP_GET and the like */
	std::string target; /* "/db?n=7", or "http://host/db?n=7" */
	std::string fields; /* the headers, "name:value\n" each */
	std::string body;

	std::string_view path() const;
	/* The value of a parameter of the query as it was sent, without decoding; "" for none. */
	std::string parameter(std::string_view name) const;
	/* How many headers have the name, in any case; the value of the last. */
	int header(std::string_view name, std::string_view &value) const;
};

struct response {
	int status = 200;
	std::string_view type = "text/plain", allow = ""; /* of static duration */
	std::string body;
};

struct server {
	std::string address = "127.0.0.1:8080", database, certificate, key;
	std::size_t database_connections = 16, connections = 10000, header_bytes = 16 << 10,
		    body_bytes = 1 << 20;
	std::chrono::nanoseconds header_time = std::chrono::seconds(10), grace = header_time,
				 body_time = header_time * 6, idle_time = body_time,
				 write_time = body_time;
	/* Called in the connection's task. It may block, park, and throw: that answers with 500. */
	void (*handler)(const request &, response &) = nullptr;

	/* What is done with a new connection; whether that succeeds. Does not park. */
	bool (*begin)(sn::stream &on) = [](sn::stream &) { return true; };
	sn::task_attr task_attributes;

	std::atomic<bool> closing = false;
	sn::mutex lock;
	std::unordered_set<sn_stream *> open; /* under the lock */
};

/* connection.cc: serves a connection and closes it. With refused it only answers 503. May park. */
void serve_connection(server &in, sn::stream stream, bool refused);
/* Ends connections without a request under way; the others end with their next answer. */
void close_idle(server &in);

/* database.cc: says where and what, with one parameter. Closes after the last question. */
void open_database(const std::string &where, const std::string &query, std::size_t connections);
void close_database();
/* Answers with the first value of the first row, or with an error. May park. */
void ask_database(response &to, const std::string &parameter);
