/* SPDX-License-Identifier: MIT */
/*
 * A name server for tests, as a thread: it answers at 127.0.0.1:53 as each case wants. For programs
 * that have entered a network namespace of their own with enter_network_with_names().
 */
#ifndef TESTS_RELAY_NAME_SERVER_HPP
#define TESTS_RELAY_NAME_SERVER_HPP

#include "support/own_network.h"

#include <arpa/inet.h>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace harness
{

/* Must be called first in main(). */
inline void enter_network_with_names(int argc, char **argv)
{
	test::OwnNetwork::enter(
		argc, argv,
		{{"/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:5\n"},
		 {"/etc/nsswitch.conf", "hosts: files dns\nservices: files\n"},
		 {"/etc/hosts", "127.0.0.1 localhost\n"}});
}

/* Writes the parts of DNS messages (RFC 1035) that matter here. It sends the question back as it
 * came. */
class name_server
{
public:
	enum class how { answers, fails, denies, is_silent };

	struct srv {
		unsigned priority;
		unsigned weight;
		unsigned port;
		std::string target;
	};

	name_server()
	{
		sockaddr_in at{};
		at.sin_family = AF_INET;
		at.sin_port = htons(53);
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (bind(fd_, reinterpret_cast<sockaddr *>(&at), sizeof at) != 0)
			throw std::runtime_error("cannot bind the name server's port");
		thread_ = std::thread([this] { run(); });
	}
	name_server(const name_server &) = delete;
	name_server &operator=(const name_server &) = delete;
	~name_server()
	{
		over_ = true;
		thread_.join();
		close(fd_);
	}

	/* Sets how every name is answered from now on, and with which addresses. Names that contain
	 * "hanging" never get an answer. */
	void set(how does, const std::vector<std::string> &addresses = {})
	{
		const std::lock_guard lock(lock_);
		does_ = does;
		addresses_ = addresses;
	}
	/* Sets the addresses of one host, if they are different. Hosts with "missing" are denied,
	 * and for those with "failing" the server fails. */
	void set_host(const std::string &name, const std::vector<std::string> &addresses)
	{
		const std::lock_guard lock(lock_);
		hosts_[name] = addresses;
	}
	/* Sets the SRV records of every name. */
	void set_srv(const std::vector<srv> &records)
	{
		const std::lock_guard lock(lock_);
		srv_ = records;
	}
	unsigned asked() const { return asked_; }

private:
	enum type { a = 1, srv_record = 33 };

	void run()
	{
		while (!over_) {
			pollfd waiting{fd_, POLLIN, 0};
			if (poll(&waiting, 1, 20) != 1)
				continue;
			char question[512];
			sockaddr_in from{};
			socklen_t length = sizeof from;
			const ssize_t n = recvfrom(fd_, question, sizeof question, 0,
						   reinterpret_cast<sockaddr *>(&from), &length);
			if (n < 12 + 5)
				continue;
			asked_++;
			const std::string reply =
				answer(std::string(question, static_cast<std::size_t>(n)));
			if (!reply.empty())
				sendto(fd_, reply.data(), reply.size(), 0,
				       reinterpret_cast<sockaddr *>(&from), length);
		}
	}

	static std::string bytes_of_16(std::size_t value)
	{
		return {static_cast<char>(value >> 8), static_cast<char>(value)};
	}

	static std::string labels(const std::string &name)
	{
		std::string all;
		for (std::size_t at = 0; at < name.size();) {
			const auto end = std::min(name.find('.', at), name.size());
			all += static_cast<char>(end - at) + name.substr(at, end - at);
			at = end + 1;
		}
		return all + '\0';
	}

	static std::string name_of(const std::string &question)
	{
		std::string name;
		for (std::size_t at = 12; at < question.size() && question[at];) {
			const auto length = static_cast<unsigned char>(question[at]);
			name += (name.empty() ? "" : ".") + question.substr(at + 1, length);
			at += 1 + std::size_t{length};
		}
		return name;
	}

	/* The data of the records that answer a question of this type. */
	std::vector<std::string> data_for(const std::string &name, int type)
	{
		std::vector<std::string> data;
		if (type == srv_record)
			for (const auto &each : srv_)
				data.push_back(bytes_of_16(each.priority) +
					       bytes_of_16(each.weight) + bytes_of_16(each.port) +
					       labels(each.target));
		if (type != a)
			return data;
		const auto own = hosts_.find(name);
		for (const auto &each : own == hosts_.end() ? addresses_ : own->second) {
			in_addr bytes{};
			inet_pton(AF_INET, each.c_str(), &bytes);
			data.emplace_back(reinterpret_cast<const char *>(&bytes), sizeof bytes);
		}
		return data;
	}

	std::string answer(const std::string &question)
	{
		const std::lock_guard lock(lock_);
		if (does_ == how::is_silent || question.find("hanging", 12) != question.npos)
			return "";
		const std::size_t name_end = question.find('\0', 12);
		if (name_end == question.npos || name_end + 5 > question.size())
			return "";
		const int type = question[name_end + 2];
		const bool denies =
			does_ == how::denies || question.find("missing", 12) != question.npos;
		const bool fails =
			does_ == how::fails || question.find("failing", 12) != question.npos;
		std::vector<std::string> data;
		if (does_ == how::answers && !denies && !fails)
			data = data_for(name_of(question), type);
		std::string reply = question.substr(0, name_end + 5);
		reply[2] = '\x81';                           /* an answer, recursion desired */
		reply[3] = static_cast<char>(fails    ? 0x82 /* SERVFAIL */
					     : denies ? 0x83 /* NXDOMAIN */
						      : 0x80);
		reply.replace(4, 8,
			      bytes_of_16(1) + bytes_of_16(data.size()) + std::string(4, '\0'));
		for (const auto &each : data)
			/* The name at 12, the type, IN, TTL 0. */
			reply += std::string("\xc0\x0c", 2) +
				 bytes_of_16(static_cast<std::size_t>(type)) +
				 std::string("\0\1\0\0\0\0", 6) + bytes_of_16(each.size()) + each;
		return reply;
	}

	int fd_ = -1;
	std::mutex lock_;
	how does_ = how::denies;
	std::vector<std::string> addresses_;
	std::map<std::string, std::vector<std::string>> hosts_;
	std::vector<srv> srv_;
	std::atomic<bool> over_{false};
	std::atomic<unsigned> asked_{0};
	std::thread thread_;
};

} // namespace harness

#endif
