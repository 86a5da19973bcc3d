/* SPDX-License-Identifier: MIT */
/*
 * One connection: a loop that reads, parses with llhttp and answers, all in blocking style.
 * Requests that arrive together are answered together. A message that two readers could understand
 * differently (RFC 9112, 11.2) is refused even where llhttp lets it pass, and so is one that
 * exceeds the limits.
 *
 * A connection whose next request does not come within a second is quiet: its task ends, so that it
 * has no stack and no parser (sennit/when_readable.h). The task does not end earlier, because a
 * busy connection would then start a task for each request.
 */
#include "http.h"

#include <algorithm>
#include <cstdio>
#include <strings.h>

#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* llhttp can call more */

enum class phase { idle, head, body };
static constexpr auto LULL = std::chrono::seconds(1); /* after it a connection is quiet */
static const double *const TIME[] = {&options.idle_time, &options.header_time, &options.body_time};

static std::string reason(int status)
{
	std::string text = llhttp_status_name(static_cast<llhttp_status_t>(status));
	std::ranges::replace(text, '_', ' ');
	return text;
}

class connection
{
public:
	connection(sn::tcp &stream, sn::deadline idle_until) : stream_(stream), until_(idle_until)
	{
		static constexpr llhttp_settings_t CALLBACKS = {
			.on_message_begin = call<&connection::begin_request>,
			.on_url = call<&connection::target>,
			.on_header_field = call<&connection::name>,
			.on_header_value = call<&connection::value>,
			.on_headers_complete = call<&connection::end_head>,
			.on_body = call<&connection::body>,
			.on_message_complete = call<&connection::end_request>,
			.on_header_value_complete = call<&connection::end_value>,
		};
		llhttp_init(&parser_, HTTP_REQUEST, &CALLBACKS);
		parser_.data = this;
	}

	/* Returns the same as serve_connection(). */
	sn::deadline run()
	{
		char in[8192];
		sn::result<std::size_t> n = 0u;
		while ((n = fill(in, sizeof in)).value_or(0) > 0) {
			input_end_ = in + *n;
			taken_ += *n;
			const auto code = llhttp_execute(&parser_, in, *n); /* answers, too */
			if (code == HPE_PAUSED)
				return end(llhttp_get_error_pos(&parser_) != input_end_);
			/* Chunks may have one byte each, but not endless extensions. */
			if (taken_ > options.header_bytes + 8.0 * request_.body.size())
				too_long();
			if (code != HPE_OK || failed_)
				return refuse(failed_ ? failed_ : 400);
		}
		if (n.error() != std::errc::timed_out)
			return {};
		/* A client that has sent nothing does not expect an answer. */
		if (phase_ != phase::idle)
			return refuse(408);
		stream_.set_read_deadline(until_);
		return sn::now() < until_ ? until_ : sn::deadline();
	}

	/* Answers with an error, after the answers to earlier requests, and ends the connection. */
	sn::deadline refuse(int status)
	{
		append({.status = status, .body = reason(status) + '\n'}, true, false);
		return end(true);
	}

private:
	/* ---- parsing: what llhttp calls ---- */

	template <auto method>
	static int call(llhttp_t *parser, auto... piece)
	{
		return (static_cast<connection *>(parser->data)->*method)(piece...);
	}

	void enter(phase next)
	{
		phase_ = next;
		taken_ = field_bytes_ = 0;
		until_ = {};
	}

	/* The first reason counts. */
	int fail(int status) { return failed_ = failed_ ? failed_ : status, int(HPE_USER); }
	int too_long() { return fail(phase_ == phase::body ? 400 : 431); }

	int begin_request()
	{
		enter(phase::head);
		request_ = {};
		return HPE_OK;
	}

	int add(std::string &to, const char *at, std::size_t size)
	{
		to.append(at, size);
		return (field_bytes_ += size) > options.header_bytes ? too_long() : HPE_OK;
	}
	int target(const char *at, std::size_t size) { return add(request_.target, at, size); }
	int name(const char *at, std::size_t size) { return add(header_.first, at, size); }
	/* A value that continues after its end is folded over two lines, and another reader
	 * could take it for two fields. */
	int value(const char *at, std::size_t size)
	{
		if (value_ended_)
			return fail(400);
		value_ended_ = at + size != input_end_;
		return add(header_.second, at, size);
	}
	int end_value()
	{
		header_.second.erase(header_.second.find_last_not_of(" \t") + 1);
		if (phase_ == phase::head) /* trailers must not count as headers */
			request_.headers.push_back(std::move(header_));
		header_ = {};
		value_ended_ = false;
		return HPE_OK;
	}

	/* A server that sees the end of the body elsewhere would take the rest of the body for a
	 * request. llhttp refuses two lengths, and a length with chunks. */
	int end_head()
	{
		int hosts = 0, codings = 0;
		std::string coding, expected;
		const bool http_1_0 = parser_.http_major == 1 && parser_.http_minor == 0;
		for (const auto &[name, value] : request_.headers) {
			hosts += !strcasecmp(name.c_str(), "host");
			if (!strcasecmp(name.c_str(), "transfer-encoding"))
				coding = value, codings++;
			if (!strcasecmp(name.c_str(), "expect"))
				expected = value;
		}
		enter(phase::body);
		request_.method = parser_.method;
		parser_.upgrade = 0; /* an upgrade is declined */
		if (parser_.http_major != 1)
			return fail(505);
		if (hosts > 1 || codings > 1 || (http_1_0 ? codings > 0 : hosts == 0))
			return fail(400);
		if (request_.method == HTTP_CONNECT ||
		    (codings && strcasecmp(coding.c_str(), "chunked")))
			return fail(501);
		if (parser_.content_length > options.body_bytes)
			return fail(413);
		if (!expected.empty() && strcasecmp(expected.c_str(), "100-continue"))
			return fail(417);
		if (!expected.empty() && !http_1_0)
			out_ += "HTTP/1.1 100 Continue\r\n\r\n";
		return HPE_OK;
	}

	int body(const char *at, std::size_t size)
	{
		request_.body.append(at, size);
		return request_.body.size() > options.body_bytes ? fail(413) : HPE_OK;
	}

	int end_request()
	{
		response to;
		enter(phase::idle);
		try {
			answer(request_, to);
		} catch (const std::exception &why) {
			const char *where = request_.target.c_str();
			std::fprintf(stderr, "http-server: %s: %s\n", where, why.what());
			to = {.status = 500, .body = "internal error\n"};
		}
		const bool stays = llhttp_should_keep_alive(&parser_) && !closing;
		append(to, request_.method != HTTP_HEAD, stays);
		return stays ? HPE_OK : HPE_PAUSED;
	}

	/* ---- reading and answering ---- */

	/* Sends the answers and waits for more bytes. Before a request the shutdown cancels this
	 * wait. Line ends may come there, and count until a request begins. */
	sn::result<std::size_t> fill(char *buf, std::size_t size)
	{
		if (!flush())
			return 0u;
		const bool idle = phase_ == phase::idle, at_rest = idle && taken_ == 0;
		if (until_ == sn::deadline())
			until_ = in_seconds(*TIME[int(phase_)]);
		stream_.set_read_deadline(at_rest ? std::min(sn::now() + LULL, until_) : until_);
		if (idle)
			sn_cancel_unmask();
		const auto n = stream_.read(buf, size);
		if (idle)
			sn_cancel_mask();
		return n;
	}

	bool flush()
	{
		stream_.set_write_deadline(in_seconds(options.write_time));
		const bool sent = stream_.write_all(out_).has_value();
		out_.clear();
		return sent;
	}

	/* Sends the answers, and reads for a while what the client still sends. Closing a
	 * connection with unread bytes would reset it, and the client could lose the answer. */
	sn::deadline end(bool has_unread)
	{
		char rest[4096];
		stream_.set_read_deadline(in_seconds(2));
		if (flush() && has_unread && stream_.shutdown_write())
			while (stream_.read(rest, sizeof rest).value_or(0) > 0)
				;
		return {};
	}

	void append(const response &to, bool with_body, bool stays)
	{
		out_ += "HTTP/1.1 " + std::to_string(to.status) + ' ' + reason(to.status) +
			"\r\nDate: " + date() + "\r\nContent-Type: " + to.type +
			"\r\nContent-Length: " + std::to_string(to.body.size()) + "\r\n";
		if (*to.allow)
			out_ += std::string("Allow: ") + to.allow + "\r\n";
		if (!stays || parser_.http_minor == 0)
			out_ += stays ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
		out_.append("\r\n").append(to.body, 0, with_body ? to.body.size() : 0);
	}

	const char *date()
	{
		const time_t now = static_cast<time_t>(sn_time());
		tm parts;
		if (std::exchange(dated_, now) != now)
			strftime(date_, sizeof date_, "%a, %d %b %Y %H:%M:%S GMT",
				 gmtime_r(&now, &parts));
		return date_;
	}

	sn::tcp &stream_;
	llhttp_t parser_;
	request request_;
	std::pair<std::string, std::string> header_; /* the header being received */
	std::string out_;                            /* answers that have not been sent */
	char date_[32];                              /* of the time */
	time_t dated_ = 0;
	phase phase_ = phase::idle;   /* how far the present request is */
	sn::deadline until_{};        /* the deadline of this phase; 0: not yet known */
	std::size_t taken_ = 0;       /* bytes that came in this phase, after it had begun */
	std::size_t field_bytes_ = 0; /* of the target and headers, or of trailers */
	const char *input_end_ = nullptr;
	bool value_ended_ = false;
	int failed_ = 0; /* the status that says why parsing has failed */
};

sn::deadline serve_connection(sn::tcp &stream, bool refused, sn::deadline idle_until)
{
	const sn::cancel_shield shield;
	connection one(stream, idle_until);
	return refused ? one.refuse(503) : one.run();
}
