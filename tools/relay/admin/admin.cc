/* SPDX-License-Identifier: MIT */
#include "admin/admin.hpp"

#include "admin/page.hpp"
#include "base/address.hpp"
#include "base/backlog.hpp"
#include "base/sleep.hpp"
#include "base/token.hpp"
#include "sessions/listener.hpp"
#include "stats/events.hpp"
#include "stats/history.hpp"
#include "stats/metrics.hpp"
#include "stats/status.hpp"
#include "wire/http.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <exception>
#include <iterator>
#include <poll.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace relay
{
namespace
{

using namespace std::chrono_literals;

/* The page is self-contained: it loads nothing else, and may not be shown in a frame. */
constexpr std::string_view page_headers =
	"Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
	"script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
	"form-action 'none'; frame-ancestors 'none'\r\n"
	"Referrer-Policy: no-referrer\r\n";

/* The value of a parameter of the query; empty if it has none. Other parameters are ignored. name:
 * with its '='. */
std::string_view parameter(std::string_view query, std::string_view name)
{
	while (!query.empty()) {
		const auto end = std::min(query.find('&'), query.size());
		if (query.substr(0, end).starts_with(name))
			return query.substr(name.size(), end - name.size());
		query.remove_prefix(std::min(end + 1, query.size()));
	}
	return {};
}

metrics_detail detail_of(std::string_view query)
{
	return parameter(query, "detail=") == "full" ? metrics_detail::full : metrics_detail::usual;
}

/* The samples after the time `since`, or all of them if the query has no such number. */
std::vector<history_sample> history_of(const snapshot_source &source, std::string_view query)
{
	const auto text = parameter(query, "since=");
	std::uint64_t since = 0;
	if (std::from_chars(text.begin(), text.end(), since).ptr != text.end())
		since = 0;
	const auto *const kept = source.past();
	return kept ? kept->since(since) : std::vector<history_sample>{};
}

/* Whether the client took the whole answer in time. */
bool answer_client(sn::tcp &client, const http_answer &what, std::chrono::nanoseconds time)
{
	client.set_write_deadline(sn::after(time));
	return static_cast<bool>(client.write_all(to_http(what)));
}

/*
 * Closing a connection with unread bytes resets it, and the client would lose the answer. One read
 * of what has arrived is enough, because a client sends one request.
 */
void read_what_is_there(const sn::tcp &client)
{
	char unread[http_reader::request_most];
	while (recv(client.native_handle(), unread, sizeof unread, MSG_DONTWAIT) ==
	       static_cast<ssize_t>(sizeof unread))
		;
}

/* Does not wait: a new connection has room for a short answer. */
void refuse(const sn::tcp &client)
{
	static const std::string text = to_http({.status = 503, .body = "too many connections\n"});
	read_what_is_there(client);
	if (send(client.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return; /* the client has left already */
}

void tell_failed(const std::exception &error) noexcept
{
	try_to_tell([&] {
		emit(event_kind::admin_failed, std::string("admin: ") + error.what(),
		     {{"error", error.what()}});
	});
}

} // namespace

struct admin_server::answer {
	int status;
	std::string_view type = "text/plain; charset=utf-8";
	std::string body;
	std::string_view more_headers = {};
};

std::unique_ptr<admin_server> admin_server::open(const snapshot_source &source,
						 const std::string &listen, int mode,
						 std::string &why, const admin_limits &limits)
{
	auto listener = listen_at(listen, mode);
	if (!listener) {
		why = "cannot listen on " + listen +
		      " for administration: " + explain_listening(listen, listener.error());
		return nullptr;
	}
	return std::make_unique<admin_server>(source, *std::move(listener), limits);
}

admin_server::admin_server(const snapshot_source &source, sn::tcp_listener listener,
			   const admin_limits &limits)
    : source_(source), limits_(limits), listener_(std::move(listener)),
      address_(listener_.address().value_or(""))
{
}

void admin_server::start()
{
	accepting_ = sn::spawn([this] { serve(); }, {.name = "admin accept"});
}

void admin_server::serve()
{
	while (is_open()) {
		auto client = listener_.accept();
		if (client) {
			admit(*std::move(client));
		} else if (is_open()) {
			try_to_tell([&] {
				emit(event_kind::admin_failed,
				     "cannot accept on " + address_ + ": " +
					     client.error().message(),
				     {{"address", address_}, {"error", client.error().message()}});
			});
			sleep_fully(100ms);
		}
	}
	if (retiring_.load(std::memory_order_acquire))
		stop_accepting();
}

void admin_server::stop_accepting()
{
	if (handed_over_.load(std::memory_order_relaxed))
		send_away_all();
	else
		drain_backlog(
			listener_, [] { return true; },
			[&](sn::tcp client) { admit(std::move(client)); });
	listener_.close();
	closed_.store(true, std::memory_order_release);
}

void admin_server::retire() noexcept
{
	retiring_.store(true, std::memory_order_relaxed);
	listener_.set_deadline(sn::deadline(1ns));
}

void admin_server::hand_over() noexcept
{
	handed_over_.store(true, std::memory_order_relaxed);
	/* The accepting task reads the other flag only after it has read this one. */
	retiring_.store(true, std::memory_order_release);
	listener_.set_deadline(sn::deadline(1ns));
	/* One that a reload has retired accepts no more. */
	if (closed_.load(std::memory_order_acquire))
		send_away_all();
}

bool admin_server::over() noexcept
{
	const std::lock_guard guard(lock_);
	return closed_.load(std::memory_order_acquire) && connections_.empty();
}

/* A connected client. close() can cancel it as soon as it is constructed. */
class admin_server::connection final : public requester
{
public:
	connection(admin_server &server, sn::tcp client)
	    : server_(server), client_(std::move(client))
	{
		const std::lock_guard guard(server_.lock_);
		server_.connections_.push_back(this);
		place_ = std::prev(server_.connections_.end());
		server_.staying_++;
		server_.serving_.add();
	}
	connection(const connection &) = delete;
	connection &operator=(const connection &) = delete;
	~connection()
	{
		{
			const std::lock_guard guard(server_.lock_);
			server_.connections_.erase(place_);
			server_.staying_ -= !is_sent_away_;
		}
		client_.close();
		server_.serving_.done(); /* the server may be gone from here on */
	}

	sn::tcp &client() noexcept { return client_; }

	/* A client may send its request and no more, and wait for the answer. Over TCP that looks
	 * as if it had left. */
	bool has_left() const noexcept override
	{
		const short gone = is_unix(server_.address_) ? 0 : POLLRDHUP;
		pollfd now{client_.native_handle(), gone, 0};
		return poll(&now, 1, 0) > 0 && (now.revents & (gone | POLLHUP | POLLERR)) != 0;
	}

	/* A client that has not sent a whole request may have to make room for another one. The
	 * list has those that have waited longest first. */
	void waits_for_request()
	{
		const std::lock_guard guard(server_.lock_);
		is_waiting_ = true;
		server_.connections_.splice(server_.connections_.end(), server_.connections_,
					    place_);
	}
	void has_request()
	{
		const std::lock_guard guard(server_.lock_);
		is_waiting_ = false;
	}

	/* Returns false if the client is being answered or already leaves. Under the server's
	 * lock. */
	bool send_away() noexcept
	{
		if (!is_waiting_ || is_sent_away_)
			return false;
		is_sent_away_ = true;
		server_.staying_--;
		client_.cancel();
		return true;
	}

private:
	admin_server &server_;
	sn::tcp client_;
	bool is_waiting_ = true;
	bool is_sent_away_ = false;
	std::list<connection *>::iterator place_;
};

/* Called when no more clients are admitted. */
void admin_server::send_away_all() noexcept
{
	const std::lock_guard guard(lock_);
	for (connection *each : connections_)
		each->send_away();
}

void admin_server::close()
{
	stopping_.store(true, std::memory_order_relaxed);
	/* A deadline long past makes the waiting accept fail. Retiring ends by itself. */
	if (!retiring_.load(std::memory_order_relaxed))
		listener_.set_deadline(sn::deadline(1ns));
	accepting_.join();
	{
		const std::lock_guard guard(lock_);
		for (connection *each : connections_)
			each->client().cancel();
	}
	serving_.wait();
	listener_.close();
}

void admin_server::admit(sn::tcp client)
try {
	bool full = false;
	{
		const std::lock_guard guard(lock_);
		/* Clients that say nothing must not keep a health check out. */
		full = staying_ >= limits_.connections_most &&
		       !std::ranges::any_of(connections_,
					    [](connection *each) { return each->send_away(); });
	}
	if (full) {
		refuse(client);
		return;
	}
	auto made = std::make_unique<connection>(*this, std::move(client));
	sn::go([this, made = std::move(made)] { serve_client(*made); }, {.name = "admin"});
} catch (const std::exception &error) {
	/* No memory: the exception has destroyed the client and what was made for it. */
	tell_failed(error);
}

void admin_server::serve_client(connection &with)
try {
	sn::tcp &client = with.client();
	http_reader reader;
	char buf[2048];
	std::string_view bytes;
	for (;;) {
		if (bytes.empty()) {
			/* The deadline runs from the first byte of a request; later bytes do not
			 * extend it. */
			if (!reader.begun())
				client.set_read_deadline(sn::after(limits_.idle_time));
			const auto size = client.read(buf, sizeof buf);
			if (!size && size.error() == std::errc::timed_out && reader.begun())
				answer_client(
					client,
					{.status = 408, .body = "the request took too long\n"},
					limits_.answer_time);
			if (!size || *size == 0)
				return;
			bytes = std::string_view(buf, *size);
		}
		if (!reader.begun())
			client.set_read_deadline(sn::after(limits_.request_time));
		bytes.remove_prefix(reader.feed(bytes));
		if (const int status = reader.http_error()) {
			const std::string body = std::string(http_reason(status)) + '\n';
			answer_client(client, {.status = status, .body = body},
				      limits_.answer_time);
			read_what_is_there(client);
			return;
		}
		if (!reader.complete())
			continue;

		with.has_request();
		const auto &request = reader.request();
		const auto made = answer_to(request, with);
		const bool again = request.keep_alive && made.status < 500 && is_open();
		if (!answer_client(client,
				   {.status = made.status,
				    .type = made.type,
				    .body = made.body,
				    .more_headers = made.more_headers,
				    .keep_alive = again,
				    .head = request.method == "HEAD"},
				   limits_.answer_time) ||
		    !again)
			return;
		reader.next();
		with.waits_for_request();
		/* Whoever sends the waiting clients away does not find one that was being answered
		 * before it waited. */
		if (handed_over_.load(std::memory_order_relaxed))
			return;
	}
} catch (const std::exception &error) {
	/* Most likely there is no memory: gives this client up. */
	tell_failed(error);
}

void admin_server::answer_as(host_names names)
{
	const std::lock_guard guard(lock_);
	std::swap(names_, names);
}

void admin_server::let_control(controller *by, std::string token)
{
	const std::lock_guard guard(lock_);
	control_by_ = by;
	token_.swap(token);
}

controller *admin_server::control_by()
{
	const std::lock_guard guard(lock_);
	return control_by_;
}

/* Emits an event if the request is not allowed. */
bool admin_server::is_allowed(const http_request &request)
{
	{
		const std::lock_guard guard(lock_);
		if (token_.empty() || has_token(request.authorization, token_))
			return true;
	}
	emit(event_kind::control_refused,
	     "a request to the control server without the token is refused",
	     {{"method", request.method}, {"path", request.path}});
	return false;
}

/* Emits an event if the name is not the server's: either the configuration lacks the name, or the
 * client is an attacker. */
bool admin_server::is_own(const std::string &host)
{
	{
		const std::lock_guard guard(lock_);
		if (is_unix(address_) || names_.accept(host))
			return true;
	}
	emit(event_kind::admin_refused,
	     "a request to the admin server under a name that is not in admin_hosts is refused",
	     {{"host", host}});
	return false;
}

admin_server::answer admin_server::answer_to(const http_request &request, const requester &by)
{
	const auto &path = request.path;
	const auto &method = request.method;
	const bool reads = method == "GET" || method == "HEAD";
	controller *const control = control_by();
	if (!reads && (method != "POST" || !control))
		return {.status = 405,
			.body = control ? "only GET, HEAD and POST\n" : "only GET and HEAD\n",
			.more_headers =
				control ? "Allow: GET, HEAD, POST\r\n" : "Allow: GET, HEAD\r\n"};
	if (path == "/healthz")
		return {.status = 200, .body = "ok\n"};
	if (path == "/ready") {
		if (source_.is_ready())
			return {.status = 200, .body = "ready\n"};
		return {.status = 503, .body = "not ready\n"};
	}
	if (!is_own(request.host))
		return {.status = 421,
			.body = "this server does not answer under that name; expected an IP "
				"address, localhost, or a name of admin_hosts\n"};
	if (!is_allowed(request))
		return {.status = 401,
			.body = "expected the token of control_token_file, as Authorization: "
				"Bearer TOKEN\n",
			.more_headers = "WWW-Authenticate: Bearer\r\n"};
	if (control)
		if (auto done = answer_control(*control, source_, request, by))
			return {.status = done->status, .body = std::move(done->text)};
	if (!reads)
		return {.status = 404, .body = "no such action\n"};
	if (path == "/")
		return {.status = 200,
			.type = "text/html; charset=utf-8",
			.body = std::string(page_html),
			.more_headers = page_headers};
	if (path == "/metrics")
		return {.status = 200,
			.type = metrics_type,
			.body = to_metrics(source_.read(), detail_of(request.query))};
	if (path == "/json")
		return {.status = 200, .type = status_type, .body = to_json(source_.read())};
	if (path == "/history")
		return {.status = 200,
			.type = status_type,
			.body = to_json(history_of(source_, request.query))};
	return {.status = 404,
		.body = "available: /, /json, /history, /metrics, /healthz and /ready\n"};
}

} // namespace relay
