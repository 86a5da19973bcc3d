// SPDX-License-Identifier: MIT
//
// The server of ../server.c, with Photon: PROCESSORS vCPUs, each a thread with an epoll of its own.
// The first one accepts, and connections go to the vCPUs in turn, as hogs do: a thread stays where
// it is, because Photon migrates none by itself.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <photon/common/alog.h>
#include <photon/net/socket.h>
#include <photon/photon.h>
#include <photon/thread/thread11.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../hog.h"

namespace
{

std::vector<photon::vcpu_base *> vcpus;

// Moves the calling thread to the vCPU whose turn it is.
void go_to(size_t turn)
{
	photon::vcpu_base *to = vcpus[turn % vcpus.size()];
	if (to != photon::get_vcpu())
		photon::thread_migrate(photon::CURRENT, to);
}

void hog(hog_plan *plan, int index)
{
	go_to(static_cast<size_t>(index));
	for (;;) {
		const int64_t left = hog_next(plan, index) - hog_now();
		if (left > 0)
			photon::thread_usleep(static_cast<uint64_t>(left) / 1000 + 1);
		hog_work(plan);
	}
}

void session(photon::net::ISocketStream *peer, size_t turn)
{
	go_to(turn);
	char buf[4096];
	ssize_t n;
	while ((n = peer->recv(buf, sizeof buf)) > 0 && peer->write(buf, n) == n)
		;
	delete peer;
}

void add_vcpu(std::atomic<photon::vcpu_base *> *into)
{
	if (photon::init(photon::INIT_EVENT_EPOLL, photon::INIT_IO_NONE) < 0)
		std::abort();
	into->store(photon::get_vcpu());
	photon::thread_sleep(-1);
}

} // namespace

int main(int argc, char **argv)
{
	hog_plan plan;
	if (!hog_arguments(argc, argv, &plan))
		return 2;
	set_log_output_level(ALOG_ERROR);
	if (photon::init(photon::INIT_EVENT_EPOLL, photon::INIT_IO_NONE) < 0)
		return 1;
	vcpus.push_back(photon::get_vcpu());
	for (int i = 1; i < plan.processors; i++) {
		std::atomic<photon::vcpu_base *> made{nullptr};
		std::thread(add_vcpu, &made).detach();
		while (!made)
			::usleep(1000);
		vcpus.push_back(made);
	}
	auto *server = photon::net::new_tcp_socket_server();
	if (server->bind(0, photon::net::IPAddr("127.0.0.1")) < 0 || server->listen() < 0) {
		std::perror("photon: listen");
		return 1;
	}
	hog_start(&plan);
	for (int i = 0; i < plan.hogs; i++)
		photon::thread_create11(hog, &plan, i);
	std::printf("%d\n", server->getsockname().port);
	std::fflush(stdout);
	for (size_t turn = 0;; turn++) {
		auto *peer = server->accept();
		if (!peer) {
			std::perror("photon: accept");
			return 1;
		}
		peer->setsockopt<int>(IPPROTO_TCP, TCP_NODELAY, 1);
		photon::thread_create11(session, peer, turn);
	}
}
