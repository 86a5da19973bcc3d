/* SPDX-License-Identifier: MIT */
/*
 * One connection: a loop that reads, parses with llhttp and answers, all in blocking style.
 * Requests that arrive together are answered together. What two readers could understand
 * differently (RFC 9112, 11.2) is refused even where llhttp lets it pass, and so is what exceeds
 * the limits.
 */
#include "http.h"

#include <algorithm>
#include <cstdio>
#include <strings.h>

namespace
{

enum class phase { idle, head, body };

bool same(std::string_view a, std::string_view b)
{
	return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string reason(int status)
{
	std::string text = llhttp_status_name(static_cast<llhttp_status_t>(status));
	std::ranges::replace(text, '_', ' ');
	return text;
}

/* Formatted once a second in each thread. Not inlined, because a task that has parked may be on
 * another thread, and compilers keep the address of a thread-local. */
__attribute__((noinline)) void append_date(std::string &to)
{
	static thread_local char text[64];
	static thread_local std::size_t size;
	static thread_local time_t when;
	const time_t now = static_cast<time_t>(sn_time());

	if (now != when) {
		tm parts;
		gmtime_r(&now, &parts);
		size = strftime(text, sizeof text, "\r\nDate: %a, %d %b %Y %H:%M:%S GMT", &parts);
		when = now;
	}
	to.append(text, size);
}

class connection
{
public:
	connection(server &in, sn::stream stream) : server_(in), stream_(std::move(stream))
	{
		static const llhttp_settings_t callbacks = make_callbacks();
		llhttp_init(&parser_, HTTP_REQUEST, &callbacks);
		parser_.data = this;
		const std::lock_guard held(server_.lock);
		server_.open.insert(stream_.get());
	}
	~connection()
	{
		const std::lock_guard held(server_.lock);
		server_.open.erase(stream_.get());
	}

	void run()
	{
		char in[8192];
		ssize_t n;

		while ((n = fill(in, sizeof in)) > 0) {
			std::string_view left(in, static_cast<std::size_t>(n));
			while (!left.empty()) {
				if (parse(left))
					answer();
				if (failed_)
					return refuse(failed_);
				if (!keep_alive_ && phase_ == phase::idle)
					return left.empty() ? void(flush()) : linger();
			}
			if (std::exchange(wants_continue_, false) && phase_ == phase::body &&
			    request_.body.empty())
				out_ += "HTTP/1.1 100 Continue\r\n\r\n";
		}
		/* A client that has sent a part of a request may listen; one that sent none does not. */
		if (n == -ETIMEDOUT && phase_ != phase::idle && !sn_cancelled())
			refuse(408);
	}

	/* Answers with an error, behind the answers to earlier requests, and ends the connection. */
	void refuse(int status)
	{
		keep_alive_ = false;
		append_answer({.status = status, .body = reason(status) + '\n'}, true);
		linger();
	}

private:
	/* ---- parsing ---- */

	/* Takes bytes from the front, to the end of a request at most: whether that was reached. */
	bool parse(std::string_view &bytes)
	{
		const phase before = phase_;
		input_end_ = bytes.end();
		const auto code = llhttp_execute(&parser_, bytes.data(), bytes.size());
		const char *end = code == HPE_OK ? bytes.end() : llhttp_get_error_pos(&parser_);
		const auto taken = static_cast<std::size_t>(end - bytes.data());
		const bool whole = code == HPE_PAUSED;

		bytes.remove_prefix(std::min(taken, bytes.size()));
		taken_ = phase_ == before && !whole ? taken_ + taken : 0;
		if (whole)
			llhttp_resume(&parser_), phase_ = phase::idle;
		else if (code != HPE_OK)
			fail(400);
		else if (phase_ != phase::body && taken_ > server_.header_bytes)
			fail(431);
		else if (taken_ > server_.header_bytes + 8 * request_.body.size())
			fail(400); /* chunks of one byte are fine, endless extensions of them are not */
		return whole;
	}

	/* The first reason counts. */
	int fail(int status) { return failed_ = failed_ ? failed_ : status, int(HPE_USER); }

	static connection &of(llhttp_t *p) { return *static_cast<connection *>(p->data); }
	static llhttp_settings_t make_callbacks()
	{
		using text = const char *;
		llhttp_settings_t on;
		llhttp_settings_init(&on);
		on.on_message_begin = [](llhttp_t *p) { return of(p).begin_request(); };
		on.on_url = [](llhttp_t *p, text at, std::size_t n) {
			return of(p).target({at, n});
		};
		on.on_header_field = [](llhttp_t *p, text at, std::size_t n) {
			return of(p).field({at, n});
		};
		on.on_header_field_complete = [](llhttp_t *p) { return of(p).field(":"); };
		on.on_header_value = [](llhttp_t *p, text at, std::size_t n) {
			return of(p).value({at, n});
		};
		on.on_header_value_complete = [](llhttp_t *p) { return of(p).field("\n"); };
		on.on_headers_complete = [](llhttp_t *p) { return of(p).end_head(); };
		on.on_body = [](llhttp_t *p, text at, std::size_t n) {
			return of(p).body({at, n});
		};
		on.on_message_complete = [](llhttp_t *) -> int { return HPE_PAUSED; };
		return on;
	}

	int begin_request()
	{
		phase_ = phase::head;
		request_.target.clear();
		request_.fields.clear();
		request_.body.clear();
		return HPE_OK;
	}

	int target(std::string_view bytes) { return add(request_.target, bytes); }
	/* A part of a name or a value, or what ends them. Trailers may not be taken for headers. */
	int field(std::string_view bytes)
	{
		value_ended_ = false;
		return phase_ == phase::body ? int(HPE_OK) : add(request_.fields, bytes);
	}
	/* A value that goes on after it has ended is folded over two lines, and could be read as two. */
	int value(std::string_view bytes)
	{
		if (value_ended_)
			return fail(400);
		const int err = field(bytes);
		value_ended_ = bytes.end() != input_end_;
		return err;
	}
	int add(std::string &to, std::string_view bytes)
	{
		to += bytes;
		const auto size = request_.target.size() + request_.fields.size();
		return size > server_.header_bytes ? fail(431) : HPE_OK;
	}

	/* A server that would see the end of the body elsewhere would take its rest for a request. */
	int end_head()
	{
		std::string_view host, length, coding, expected;
		const int hosts = request_.header("host", host),
			  lengths = request_.header("content-length", length),
			  codings = request_.header("transfer-encoding", coding),
			  expects = request_.header("expect", expected);

		phase_ = phase::body;
		request_.method = parser_.method;
		http_1_0_ = parser_.http_major == 1 && parser_.http_minor == 0;
		keep_alive_ = llhttp_should_keep_alive(&parser_);
		parser_.upgrade = 0; /* whoever asks for another protocol gets this one */
		if (parser_.http_major != 1)
			return fail(505);
		if (hosts > 1 || (hosts == 0 && !http_1_0_) || lengths + codings > 1 ||
		    (codings && http_1_0_))
			return fail(400);
		if (request_.method == HTTP_CONNECT || (codings && !same(coding, "chunked")))
			return fail(501);
		if (lengths && parser_.content_length > server_.body_bytes)
			return fail(413);
		if (expects && !same(expected, "100-continue"))
			return fail(417);
		wants_continue_ = expects && !http_1_0_;
		return HPE_OK;
	}

	int body(std::string_view bytes)
	{
		const bool fits = bytes.size() <= server_.body_bytes - request_.body.size();
		return fits ? request_.body += bytes, int(HPE_OK) : fail(413);
	}

	/* ---- reading and answering ---- */

	/*
	 * Sends the answers and waits for more from the client. At the shutdown the deadline of every
	 * connection is moved into the past, which wakes it: one in the middle of a request waits again.
	 */
	ssize_t fill(char *buf, std::size_t size)
	{
		const auto now = sn::now();
		if (!flush(now))
			return -EPIPE;
		if (phase_ != waits_for_ || phase_ == phase::idle)
			until_ = now + (phase_ == phase::idle   ? server_.idle_time
					: phase_ == phase::head ? server_.header_time
								: server_.body_time);
		waits_for_ = phase_;
		for (;;) {
			stream_.set_read_deadline(until_);
			if (server_.closing && phase_ == phase::idle)
				return 0;
			const ssize_t n = sn_stream_read(stream_.get(), buf, size);
			if (n != -ETIMEDOUT || sn_cancelled() || sn::now() >= until_)
				return n;
		}
	}

	bool flush(sn::deadline now = sn::now())
	{
		if (out_.empty())
			return true;
		stream_.set_write_deadline(now + server_.write_time);
		const bool sent = stream_.write_all(out_).has_value();
		out_.clear();
		return sent;
	}

	void answer()
	{
		response_ = {};
		try {
			server_.handler(request_, response_);
		} catch (const std::exception &error) {
			std::fprintf(stderr, "http-server: %s: %s\n", request_.target.c_str(),
				     error.what());
			response_ = {.status = 500, .body = "internal error\n"};
		}
		keep_alive_ = keep_alive_ && !server_.closing;
		append_answer(response_, request_.method != HTTP_HEAD);
	}

	void append_answer(const response &to, bool with_body)
	{
		((out_ += "HTTP/1.1 ") += std::to_string(to.status)) += ' ';
		append_date(out_ += reason(to.status));
		((out_ += "\r\nContent-Type: ") += to.type) += "\r\nContent-Length: ";
		(out_ += std::to_string(to.body.size())) += "\r\n";
		if (!to.allow.empty())
			((out_ += "Allow: ") += to.allow) += "\r\n";
		if (!keep_alive_ || http_1_0_)
			(out_ += "Connection: ") += keep_alive_ ? "keep-alive\r\n" : "close\r\n";
		out_ += "\r\n";
		if (with_body)
			out_ += to.body;
	}

	/* Reads what the client sends, for a while. Closing a connection with that unread would
	 * reset it, and a client that is reset may lose the answer. */
	void linger()
	{
		char unread[4096];
		stream_.set_read_deadline(sn::after(std::chrono::seconds(2)));
		if (!flush() || !stream_.shutdown_write())
			return;
		for (int i = 0; i < 1000; i++)
			if (stream_.read(unread, sizeof unread).value_or(0) == 0)
				return;
	}

	server &server_;
	sn::stream stream_;
	llhttp_t parser_;
	request request_;
	response response_;
	std::string out_;           /* answers that have not been sent */
	phase phase_ = phase::idle; /* how far the present request is */
	std::size_t taken_ = 0;     /* bytes of this phase that are parsed */
	const char *input_end_ = nullptr;
	bool value_ended_ = false;
	int failed_ = 0;              /* the status that says why nothing more can be parsed */
	bool keep_alive_ = true;      /* from the head of the present request on */
	bool http_1_0_ = false;       /* the same */
	bool wants_continue_ = false; /* the client waits for a 100 before it sends the body */
	phase waits_for_ = phase::idle;
	sn::deadline until_{}; /* for what it waits for */
};

} // namespace

void serve_connection(server &in, sn::stream stream, bool refused)
{
	try {
		connection one(in, std::move(stream));
		refused ? one.refuse(503) : one.run();
	} catch (const std::bad_alloc &) {
		/* the connection ends, and the others go on */
	}
}

void close_idle(server &in)
{
	in.closing = true;
	const std::lock_guard held(in.lock);
	for (sn_stream *each : in.open)
		sn_stream_set_read_deadline(each, 1);
}

/* ---- requests ---- */

std::string_view request::path() const
{
	std::string_view path = target;
	if (const auto host = path.find("://"); host != path.npos && path[0] != '/')
		path.remove_prefix(std::min(path.find('/', host + 3), path.size()));
	return path.substr(0, path.find('?'));
}

std::string request::parameter(std::string_view name) const
{
	for (auto at = target.find('?'); at != target.npos; at = target.find('&', at + 1))
		if (target.compare(at + 1, name.size(), name) == 0 &&
		    target[at + 1 + name.size()] == '=') {
			const auto value = at + name.size() + 2;
			return target.substr(value, target.find('&', value) - value);
		}
	return "";
}

int request::header(std::string_view name, std::string_view &value) const
{
	std::string_view rest = fields;
	int found = 0;
	for (; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1)) {
		const auto colon = rest.find(':'),
			   last = rest.find_last_not_of(" \t", rest.find('\n') - 1);
		if (same(rest.substr(0, colon), name)) {
			value = rest.substr(colon + 1, last - colon);
			found++;
		}
	}
	return found;
}
