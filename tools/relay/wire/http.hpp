/* SPDX-License-Identifier: MIT */
/*
 * The part of HTTP/1 that the admin server needs: reading requests without a body, and writing
 * answers of known length. It does no input or output itself.
 *
 * Everything that a client can make large has a limit, and every mistake of a client gets an answer
 * with the status http_error(). After an error nothing more can be read, because it is unknown
 * where the next request would begin.
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
	std::string method;        /* GET, HEAD, or another that HTTP knows */
	std::string path;          /* from '/' up to the query, or what is sent instead */
	std::string query;         /* after the '?' */
	std::string host;          /* the target's, or the value of Host; empty: none */
	std::string authorization; /* the value of Authorization */
	bool keep_alive = false;
};

class http_reader
{
public:
	/* The longest path with its query, and the longest request. Those of browsers with
	 * cookies are shorter. */
	static constexpr std::size_t url_most = 1024;
	static constexpr std::size_t request_most = 8192;

	http_reader();
	http_reader(const http_reader &) = delete;
	http_reader &operator=(const http_reader &) = delete;

	/*
	 * Parses bytes, at most up to the end of a request, and returns how many it took: all of
	 * them, unless the request is complete or bad.
	 */
	std::size_t feed(std::string_view bytes);

	/* Whether a request is complete. Then request() has it, until next() begins another. */
	bool complete() const noexcept { return complete_; }
	const http_request &request() const noexcept { return request_; }
	void next();

	/* Whether a part of a request has been read. */
	bool begun() const noexcept { return taken_ > 0; }

	/* 0, or the status to be sent to the client before the connection is closed. */
	int http_error() const noexcept { return error_; }

private:
	std::size_t feed_byte(const char *byte);
	std::string *wanted(bool *&seen) noexcept;
	void split_target();
	static int on_url(llhttp_t *parser, const char *at, std::size_t size);
	static int on_header_field(llhttp_t *parser, const char *at, std::size_t size);
	static int on_header_value(llhttp_t *parser, const char *at, std::size_t size);
	static int on_header_value_complete(llhttp_t *parser);
	static int on_headers_complete(llhttp_t *parser);
	static int on_message_complete(llhttp_t *parser);
	static const llhttp_settings_t settings;

	llhttp_t parser_;
	http_request request_;
	std::string url_;
	std::string field_; /* the name of the header field that is being read */
	std::string value_; /* its value, if the field is of use here */
	bool has_host_ = false;
	bool has_authorization_ = false;
	std::size_t taken_ = 0; /* bytes of the current request */
	bool complete_ = false;
	int error_ = 0;
};

struct http_answer {
	int status = 200;
	std::string_view type = "text/plain; charset=utf-8";
	std::string_view body = {};
	std::string_view more_headers = {}; /* whole lines */
	bool keep_alive = false;
	bool head = false; /* send the length of the body, but not the body */
};

/* The answer's header lines and, except for HEAD, its body. */
std::string to_http(const http_answer &answer);

/* The reason phrase of a status, such as "Not Found"; "" if the status is not used here. */
std::string_view http_reason(int status) noexcept;

} // namespace relay

#endif
