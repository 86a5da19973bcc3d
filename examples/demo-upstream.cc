/* SPDX-License-Identifier: MIT */
/*
 * A web server with one page, as a backend for sennit-relay:
 *
 *	example-demo-upstream 127.0.0.1:8081
 *	sennit-relay 127.0.0.1:8080 127.0.0.1:8081
 *	curl http://127.0.0.1:8080/
 *
 * One task per connection, in plain blocking style. HTTP/1.1 with keep-alive and pipelining; GET
 * and HEAD only. The head of a request may have 8 KiB; a client may be silent for a minute. Exits
 * with status 0 on SIGTERM and SIGINT.
 */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace
{

using namespace std::chrono_literals;

constexpr std::size_t longest_head = 8192;
constexpr auto patience = 60s;

std::atomic<unsigned long> requests{0};

struct request {
	std::string method;
	std::string target;
	bool keep_alive = true;
};

struct response {
	const char *status;
	std::string body;
	const char *more_headers = "";
};

bool equal_ignoring_case(std::string_view a, std::string_view b)
{
	const auto lower = [](char c) {
		return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
	};
	return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trimmed(std::string_view text)
{
	while (text.starts_with(' ') || text.starts_with('\t'))
		text.remove_prefix(1);
	while (text.ends_with(' ') || text.ends_with('\t'))
		text.remove_suffix(1);
	return text;
}

/* Removes the next line from the front of the head, and returns it without its CRLF. */
std::string_view take_line(std::string_view &head)
{
	const auto end = head.find("\r\n");
	const auto line = head.substr(0, end);
	head.remove_prefix(std::min(end + 2, head.size()));
	return line;
}

/* Parses a head, which ends with an empty line. Returns false if it is not well-formed HTTP. */
bool parse(std::string_view head, request &asked)
{
	const auto line = take_line(head);
	const auto first = line.find(' ');
	const auto second = line.find(' ', first + 1);
	if (first == line.npos || second == line.npos || first == 0)
		return false;
	asked.method = line.substr(0, first);
	asked.target = line.substr(first + 1, second - first - 1);
	const auto version = line.substr(second + 1);
	if ((version != "HTTP/1.1" && version != "HTTP/1.0") || asked.target.empty())
		return false;
	asked.keep_alive = version == "HTTP/1.1";

	int hosts = 0;
	while (!head.empty()) {
		const auto field = take_line(head);
		if (field.empty())
			break;
		const auto colon = field.find(':');
		if (colon == field.npos || colon == 0 || field[colon - 1] == ' ')
			return false;
		const auto name = field.substr(0, colon);
		const auto value = trimmed(field.substr(colon + 1));
		if (equal_ignoring_case(name, "host"))
			hosts++;
		if (equal_ignoring_case(name, "connection") && equal_ignoring_case(value, "close"))
			asked.keep_alive = false;
		/* Bodies are not read here, so nothing after a body could be parsed. */
		if (equal_ignoring_case(name, "transfer-encoding") ||
		    (equal_ignoring_case(name, "content-length") && value != "0"))
			asked.keep_alive = false;
	}
	return hosts == 1 || version == "HTTP/1.0";
}

std::string page(std::string_view title, std::string_view text)
{
	std::string html = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>";
	html.append(title).append("</title>\n<style>body { font: 1.1em/1.5 sans-serif; margin: 3em "
				  "auto; max-width: 36em }</style>\n<h1>");
	html.append(title).append("</h1>\n").append(text).append("\n</html>\n");
	return html;
}

response answer(const request &asked, const std::string &peer)
{
	if (asked.method != "GET" && asked.method != "HEAD")
		return {"405 Method Not Allowed",
			page("Method not allowed", "<p>Only GET and HEAD are understood here."),
			"Allow: GET, HEAD\r\n"};
	const auto path = asked.target.substr(0, asked.target.find('?'));
	if (path != "/")
		return {"404 Not Found",
			page("Not found", "<p>There is only <a href=\"/\">one page</a>.")};
	return {"200 OK",
		page("It works",
		     "<p>This page came through <b>sennit-relay</b>: your bytes went to the relay, "
		     "which passed them on to this small server, and its answer back to you."
		     "\n<p>It is request number " +
			     std::to_string(requests.load(std::memory_order_relaxed)) +
			     ".\n<p>The relay's end of the connection is " + peer + ".")};
}

sn::result<void> reply(sn::tcp &client, const response &what, bool with_body, bool keep_alive)
{
	std::string text = std::string("HTTP/1.1 ") + what.status +
			   "\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: " +
			   std::to_string(what.body.size()) + "\r\n" + what.more_headers +
			   (keep_alive ? "" : "Connection: close\r\n") + "\r\n";
	if (with_body)
		text += what.body;
	return client.write_all(text);
}

/*
 * Closes a connection on which the client may still be sending: closing with unread bytes would
 * reset it, and the client could lose the answer.
 */
void finish(sn::tcp &client)
{
	if (!client.shutdown_write())
		return;
	client.set_read_deadline(2s);
	char chunk[2048];
	for (std::size_t rest = 1024 * 1024; rest > sizeof chunk;) {
		const auto n = client.read(chunk, sizeof chunk);
		if (!n || *n == 0)
			return;
		rest -= *n;
	}
}

void session(sn::tcp client)
{
	const std::string peer = client.peer_address().value_or("unknown");
	const auto refuse = [&client](const char *status, const char *text) {
		if (reply(client, {status, page(status, text)}, true, false))
			finish(client);
	};
	std::string received;

	for (;;) {
		std::size_t end;
		client.set_read_deadline(patience);
		while ((end = received.find("\r\n\r\n")) == received.npos) {
			if (received.size() >= longest_head)
				return refuse("431 Request Header Fields Too Large",
					      "<p>The head of a request may have 8 KiB.");
			char chunk[2048];
			const auto n = client.read(chunk, sizeof chunk);
			if (!n || *n == 0)
				return;
			received.append(chunk, *n);
		}

		request asked;
		requests.fetch_add(1, std::memory_order_relaxed);
		if (end > longest_head ||
		    !parse(std::string_view(received).substr(0, end + 2), asked))
			return refuse("400 Bad Request", "<p>That was not HTTP/1.1.");
		received.erase(0, end + 4);
		client.set_write_deadline(patience);
		if (!reply(client, answer(asked, peer), asked.method != "HEAD", asked.keep_alive))
			return;
		if (!asked.keep_alive)
			return finish(client);
	}
}

void accept_all(sn::tcp_listener &listener)
{
	for (;;) {
		auto client = listener.accept();
		if (!client)
			return;
		try {
			sn::go([peer = *std::move(client)]() mutable { session(std::move(peer)); },
			       {.name = "session"});
		} catch (const std::system_error &) {
			/* No memory for a stack: this client is closed; later ones may succeed. */
		}
	}
}

int serve(const char *address)
{
	sn::catch_signal(SIGTERM).value();
	sn::catch_signal(SIGINT).value();
	auto listener = sn::tcp_listener::listen(address);
	if (!listener) {
		const bool malformed = listener.error() == std::errc::invalid_argument;
		const bool unknown = listener.error() == std::errc::no_such_file_or_directory;
		std::fprintf(stderr,
			     "example-demo-upstream: cannot listen on \"%s\": %s; expected a free "
			     "ADDRESS:PORT, such as 127.0.0.1:8081\n",
			     address,
			     unknown ? "it does not resolve" : listener.error().message().c_str());
		return malformed ? 2 : 1;
	}
	std::printf("listening on %s\n", listener->address().value_or(address).c_str());
	std::fflush(stdout);
	const auto accepting =
		sn::spawn([&listener] { accept_all(*listener); }, {.name = "accept"});
	static_cast<void>(sn::wait_signal());
	listener->set_deadline(sn::deadline(1ns)); /* long past: this ends accept_all() */
	return EXIT_SUCCESS;
}

} // namespace

int main(int argc, char **argv)
try {
	if (argc > 2) {
		std::fprintf(stderr,
			     "example-demo-upstream: unexpected argument \"%s\"; expected one "
			     "address to listen on, or none for 127.0.0.1:8081\n",
			     argv[2]);
		return 2;
	}
	return sn::run([&] { return serve(argc == 2 ? argv[1] : "127.0.0.1:8081"); });
} catch (const std::exception &error) {
	std::fprintf(stderr, "example-demo-upstream: cannot run: %s\n", error.what());
	return EXIT_FAILURE;
}
