/* SPDX-License-Identifier: MIT */
/*
 * Reads the body of an HTTP/1 answer to a request other than HEAD, whose end is given by chunks, a
 * length or the end of the connection. Answers with the status 1xx, 204 or 304 have no body.
 * http_status.hpp reads the status line, more strictly.
 *
 * Any bytes may be fed, in any pieces. Nothing is allocated.
 */
#ifndef RELAY_HTTP_BODY_HPP
#define RELAY_HTTP_BODY_HPP

#include <llhttp.h>
#include <string_view>

namespace relay
{

class http_body
{
public:
	enum class state : unsigned char { more, done, bad };

	http_body() noexcept;
	virtual ~http_body() = default;
	http_body(const http_body &) = delete;
	http_body &operator=(const http_body &) = delete;

	/* Takes the next bytes of the answer, which begins with its status line. Bytes after its
	 * end are ignored. */
	state feed(std::string_view bytes);

	/* The connection has ended. Returns done or bad. */
	state finish();

protected:
	/* Gets the next piece of the body, which is never empty. Must not throw. */
	virtual void take(std::string_view piece) noexcept = 0;

private:
	static int on_headers_complete(llhttp_t *parser);
	static int on_body(llhttp_t *parser, const char *at, std::size_t size);
	static int on_message_complete(llhttp_t *parser);
	static const llhttp_settings_t settings;

	llhttp_t parser_;
	state is_ = state::more;
};

} // namespace relay

#endif
