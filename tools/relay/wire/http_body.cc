/* SPDX-License-Identifier: MIT */
#include "wire/http_body.hpp"

namespace relay
{

const llhttp_settings_t http_body::settings = [] {
	llhttp_settings_t made;
	llhttp_settings_init(&made);
	made.on_headers_complete = on_headers_complete;
	made.on_body = on_body;
	made.on_message_complete = on_message_complete;
	return made;
}();

http_body::http_body() noexcept
{
	llhttp_init(&parser_, HTTP_RESPONSE, &settings);
	parser_.data = this;
}

/* Such an answer may have a Content-Length: that of the body which another answer would have. */
int http_body::on_headers_complete(llhttp_t *parser)
{
	constexpr int has_no_body = 1;
	const auto status = parser->status_code;
	return status < 200 || status == 204 || status == 304 ? has_no_body : 0;
}

int http_body::on_body(llhttp_t *parser, const char *at, std::size_t size)
{
	static_cast<http_body *>(parser->data)->take({at, size});
	return 0;
}

int http_body::on_message_complete(llhttp_t *parser)
{
	static_cast<http_body *>(parser->data)->is_ = state::done;
	return HPE_PAUSED;
}

http_body::state http_body::feed(std::string_view bytes)
{
	if (is_ != state::more || bytes.empty())
		return is_;
	const auto code = llhttp_execute(&parser_, bytes.data(), bytes.size());
	if (code != HPE_OK && is_ == state::more)
		is_ = state::bad;
	return is_;
}

http_body::state http_body::finish()
{
	/* Without a length, the end of the connection is that of the body. */
	if (is_ == state::more && llhttp_finish(&parser_) != HPE_OK && is_ == state::more)
		is_ = state::bad;
	if (is_ == state::more)
		is_ = state::bad;
	return is_;
}

} // namespace relay
