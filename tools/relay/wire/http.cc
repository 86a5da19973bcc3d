/* SPDX-License-Identifier: MIT */
#include "wire/http.hpp"

#include <algorithm>
#include <strings.h>
#include <utility>

namespace relay
{

const llhttp_settings_t http_reader::settings = [] {
	llhttp_settings_t made;
	llhttp_settings_init(&made);
	made.on_url = on_url;
	made.on_header_field = on_header_field;
	made.on_header_value = on_header_value;
	made.on_header_value_complete = on_header_value_complete;
	made.on_headers_complete = on_headers_complete;
	made.on_message_complete = on_message_complete;
	return made;
}();

http_reader::http_reader()
{
	llhttp_init(&parser_, HTTP_REQUEST, &settings);
	parser_.data = this;
}

int http_reader::on_url(llhttp_t *parser, const char *at, std::size_t size)
{
	auto &self = *static_cast<http_reader *>(parser->data);
	if (self.url_.size() + size > url_most) {
		self.error_ = 414;
		return HPE_USER;
	}
	self.url_.append(at, size);
	return 0;
}

int http_reader::on_header_field(llhttp_t *parser, const char *at, std::size_t size)
{
	static_cast<http_reader *>(parser->data)->field_.append(at, size);
	return 0;
}

/* Where to put the value of the header field that is being read; null if it is of no use. */
std::string *http_reader::wanted(bool *&seen) noexcept
{
	if (strcasecmp(field_.c_str(), "host") == 0) {
		seen = &has_host_;
		return &request_.host;
	}
	if (strcasecmp(field_.c_str(), "authorization") == 0) {
		seen = &has_authorization_;
		return &request_.authorization;
	}
	return nullptr;
}

int http_reader::on_header_value(llhttp_t *parser, const char *at, std::size_t size)
{
	auto &self = *static_cast<http_reader *>(parser->data);
	bool *seen = nullptr;
	if (self.wanted(seen))
		self.value_.append(at, size);
	return 0;
}

int http_reader::on_header_value_complete(llhttp_t *parser)
{
	auto &self = *static_cast<http_reader *>(parser->data);
	bool *seen = nullptr;
	if (std::string *const into = self.wanted(seen)) {
		/* If a field came twice, it would be unknown which one counts. */
		if (std::exchange(*seen, true)) {
			self.error_ = 400;
			return HPE_USER;
		}
		self.value_.erase(self.value_.find_last_not_of(" \t") + 1);
		*into = std::exchange(self.value_, {});
	}
	self.field_.clear();
	return 0;
}

int http_reader::on_headers_complete(llhttp_t *parser)
{
	auto &self = *static_cast<http_reader *>(parser->data);
	if (parser->http_major != 1) {
		self.error_ = 505;
		return HPE_USER;
	}
	/* No request here takes a body. */
	if ((parser->flags & F_CHUNKED) || parser->content_length > 0) {
		self.error_ = 413;
		return HPE_USER;
	}
	self.request_.method = llhttp_method_name(static_cast<llhttp_method_t>(parser->method));
	self.split_target();
	/* An upgrade is declined: the answer is HTTP/1, and then the connection closes. */
	self.request_.keep_alive = llhttp_should_keep_alive(parser) && !parser->upgrade;
	return 0;
}

/* Splits the target. Every server must accept a whole URL, as clients send it to a proxy. Then
 * the URL's host counts instead of the value of Host, and a missing path means "/" (RFC 9112,
 * sections 3.2.1 and 3.2.2). */
void http_reader::split_target()
{
	std::string_view rest = url_;
	const auto scheme = rest.find("://");
	if (!rest.starts_with('/') && scheme < rest.find_first_of("/?")) {
		rest.remove_prefix(scheme + 3);
		const auto end = std::min(rest.find_first_of("/?#"), rest.size());
		request_.host = rest.substr(0, end);
		rest.remove_prefix(end);
		if (!rest.starts_with('/'))
			request_.path = "/";
	}
	const auto mark = rest.find('?');
	request_.path += rest.substr(0, mark);
	request_.query = mark == rest.npos ? "" : rest.substr(mark + 1);
}

int http_reader::on_message_complete(llhttp_t *parser)
{
	static_cast<http_reader *>(parser->data)->complete_ = true;
	return HPE_PAUSED;
}

/* llhttp reports the target at the end of the bytes that it gets, but an error in it immediately.
 * So it would depend on where the bytes are cut whether a target is too long or wrong; it gets them
 * one after another. Nobody sends many requests to this server. */
std::size_t http_reader::feed(std::string_view bytes)
{
	std::size_t took = 0;
	while (took < bytes.size() && !error_ && !complete_)
		took += feed_byte(bytes.data() + took);
	return took;
}

/* Returns 1, or 0 if the request was complete before. */
std::size_t http_reader::feed_byte(const char *byte)
{
	const auto code = llhttp_execute(&parser_, byte, 1);
	std::size_t took = 1;
	if (complete_)
		took = static_cast<std::size_t>(llhttp_get_error_pos(&parser_) - byte);
	else if (code == HPE_INVALID_METHOD)
		error_ = 501;
	else if (code == HPE_INVALID_VERSION || code == HPE_PAUSED_H2_UPGRADE)
		error_ = 505;
	else if (code != HPE_OK && error_ == 0)
		error_ = 400;
	taken_ += took;
	if (taken_ > request_most) {
		complete_ = false; /* its last byte was the one beyond the limit */
		if (error_ == 0)
			error_ = url_.size() > url_most ? 414 : 431;
	}
	return took;
}

void http_reader::next()
{
	llhttp_init(&parser_, HTTP_REQUEST, &settings);
	parser_.data = this;
	request_ = {};
	url_.clear();
	field_.clear();
	value_.clear();
	has_host_ = false;
	has_authorization_ = false;
	taken_ = 0;
	complete_ = false;
}

std::string_view http_reason(int status) noexcept
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 401:
		return "Unauthorized";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 408:
		return "Request Timeout";
	case 409:
		return "Conflict";
	case 413:
		return "Content Too Large";
	case 414:
		return "URI Too Long";
	case 421:
		return "Misdirected Request";
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 501:
		return "Not Implemented";
	case 503:
		return "Service Unavailable";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "";
	}
}

std::string to_http(const http_answer &answer)
{
	std::string out = "HTTP/1.1 " + std::to_string(answer.status) + ' ';
	out.append(http_reason(answer.status)) += "\r\nContent-Type: ";
	out.append(answer.type) += "\r\nContent-Length: ";
	out += std::to_string(answer.body.size());
	/* The content is valid only at this moment, and browsers must not guess its type. */
	out += "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: ";
	out += answer.keep_alive ? "keep-alive" : "close";
	out += "\r\n";
	out.append(answer.more_headers) += "\r\n";
	if (!answer.head)
		out += answer.body;
	return out;
}

} // namespace relay
