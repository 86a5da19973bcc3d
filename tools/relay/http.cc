/* SPDX-License-Identifier: MIT */
#include "http.hpp"

namespace relay
{

const llhttp_settings_t http_reader::settings = [] {
	llhttp_settings_t made;
	llhttp_settings_init(&made);
	made.on_url = on_url;
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
	self.request_.path = self.url_.substr(0, self.url_.find('?'));
	/* An upgrade is declined: the answer is HTTP/1, and then the connection closes. */
	self.request_.keep_alive = llhttp_should_keep_alive(parser) && !parser->upgrade;
	return 0;
}

int http_reader::on_message_complete(llhttp_t *parser)
{
	static_cast<http_reader *>(parser->data)->complete_ = true;
	return HPE_PAUSED;
}

std::size_t http_reader::feed(std::string_view bytes)
{
	if (error_ || complete_ || bytes.empty())
		return 0;
	/* One byte beyond the limit is enough to detect a request that is too long. */
	const auto part = bytes.substr(0, request_most + 1 - taken_);
	const auto code = llhttp_execute(&parser_, part.data(), part.size());
	std::size_t took = part.size();
	if (complete_)
		took = static_cast<std::size_t>(llhttp_get_error_pos(&parser_) - part.data());
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
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 408:
		return "Request Timeout";
	case 413:
		return "Content Too Large";
	case 414:
		return "URI Too Long";
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
