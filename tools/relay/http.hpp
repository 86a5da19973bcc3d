/* SPDX-License-Identifier: MIT */
/*
 * The little of HTTP/1 that the admin server speaks: requests without a body are read, answers of
 * known length are written. No input or output of its own.
 *
 * Everything that a client can make large has a limit, and everything that it can do wrong has an
 * answer: http_error() of the reader tells its status. After that nothing more can be read, as one
 * cannot know where the next request would begin.
 */
#ifndef RELAY_HTTP_HPP
#define RELAY_HTTP_HPP

#include <cstddef>
#include <llhttp.h>
#include <string>
#include <string_view>

namespace relay
{

struct http_request {
	std::string method; /* GET, HEAD, or another that HTTP knows */
	std::string path;   /* from '/' up to the query, as it was sent */
	bool keep_alive = false;
};

class http_reader
{
public:
	/* Longest path with its query; longest request. Browsers with cookies stay below. */
	static constexpr std::size_t url_most = 1024;
	static constexpr std::size_t request_most = 8192;

	http_reader();
	http_reader(const http_reader &) = delete;
	http_reader &operator=(const http_reader &) = delete;

	/*
	 * Reads on, at most up to the end of a request, and returns how many bytes it took: all,
	 * unless the request is complete or bad.
	 */
	std::size_t feed(std::string_view bytes);

	/* A request is complete: request() tells it, until next() begins another. */
	bool complete() const noexcept { return complete_; }
	const http_request &request() const noexcept { return request_; }
	void next();

	/* Part of a request has been read. */
	bool begun() const noexcept { return taken_ > 0; }

	/* 0, or the status that the client has to be told before the connection is closed. */
	int http_error() const noexcept { return error_; }

private:
	static int on_url(llhttp_t *parser, const char *at, std::size_t size);
	static int on_headers_complete(llhttp_t *parser);
	static int on_message_complete(llhttp_t *parser);
	static const llhttp_settings_t settings;

	llhttp_t parser_;
	http_request request_;
	std::string url_;
	std::size_t taken_ = 0; /* of the present request */
	bool complete_ = false;
	int error_ = 0;
};

struct http_answer {
	int status = 200;
	std::string_view type = "text/plain; charset=utf-8";
	std::string_view body = {};
	std::string_view more_headers = {}; /* whole lines */
	bool keep_alive = false;
	bool head = false; /* the body is not sent, its length is told */
};

/* Header lines and, but for HEAD, the body. */
std::string to_http(const http_answer &answer);

/* "Not Found"; "" for a status that is not in use here. */
std::string_view http_reason(int status) noexcept;

} // namespace relay

#endif
