/* SPDX-License-Identifier: MIT */
/*
 * A chat server: a line from one client is sent to all others. Each connection has a task that
 * reads and one that writes; the tasks communicate only through channels. A client that reads too
 * slowly is disconnected. A client that has received its number gets every later line.
 * Try (nc is in Debian's netcat-openbsd):
 *
 *	example-chat 127.0.0.1:7001 &
 *	nc 127.0.0.1 7001
 */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <list>
#include <memory>
#include <string>
#include <variant>

namespace
{

using lines = sn::channel<std::string>;

struct joined {
	unsigned id;
	lines out;
	std::shared_ptr<sn::tcp> conn;
};
struct left {
	unsigned id;
};
struct said {
	unsigned id;
	std::string line;
};
using event = std::variant<joined, left, said>;

/* The only task that knows all clients, so no lock is needed. */
void hub(const sn::channel<event> &events)
{
	std::list<joined> here;
	const auto broadcast = [&](unsigned but, const std::string &line) {
		for (const joined &each : here)
			if (each.id != but && !each.out.try_send(line))
				each.conn->cancel(); /* the client's channel is full */
	};

	for (event &each : events) {
		if (auto *in = std::get_if<joined>(&each)) {
			broadcast(in->id, "* " + std::to_string(in->id) + " is here\n");
			static_cast<void>(
				in->out.try_send("* you are " + std::to_string(in->id) + "\n"));
			here.push_back(std::move(*in));
		} else if (auto *out = std::get_if<left>(&each)) {
			here.remove_if([&](const joined &one) { return one.id == out->id; });
			broadcast(out->id, "* " + std::to_string(out->id) + " has left\n");
		} else {
			auto &words = std::get<said>(each);
			broadcast(words.id, std::to_string(words.id) + ": " + words.line);
		}
	}
}

void session(const std::shared_ptr<sn::tcp> &conn, unsigned id, const sn::channel<event> &events)
{
	lines out(100);
	sn::scope both;
	std::string pending;
	char buf[1024];

	both.go([conn, out] {
		for (const std::string &line : out)
			if (!conn->write_all(line))
				break;
		static_cast<void>(conn->shutdown_read()); /* ends the reader */
	});
	if (!events.send(joined{id, out, conn}))
		return;
	while (auto n = conn->read(buf, sizeof buf)) {
		if (*n == 0 || pending.size() > 64 * 1024)
			break;
		pending.append(buf, *n);
		for (std::size_t end; (end = pending.find('\n')) != std::string::npos;
		     pending.erase(0, end + 1))
			static_cast<void>(events.send(said{id, pending.substr(0, end + 1)}));
	}
	static_cast<void>(events.send(left{id}));
	out.close(); /* the writer sends what is left, and ends */
	static_cast<void>(both.join());
}

int chat(const char *address)
{
	auto listener = sn::tcp_listener::listen(address);
	if (!listener) {
		std::fprintf(stderr, "%s: %s\n", address, listener.error().message().c_str());
		return 1;
	}
	std::printf("listening on %s\n", listener->address().value().c_str());
	std::fflush(stdout);

	sn::channel<event> events(100);
	sn::scope all;
	unsigned last = 0;

	all.go([events] { hub(events); });
	for (;;) {
		auto conn = std::make_shared<sn::tcp>(listener->accept().value());
		all.go([conn, events, id = ++last] { session(conn, id, events); });
	}
}

} // namespace

int main(int argc, char **argv)
{
	return sn::run([&] { return chat(argc > 1 ? argv[1] : "127.0.0.1:7001"); });
}
