import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createConnection } from 'node:net'
import { delimiter, join } from 'node:path'
import { describe } from 'vitest'

/** The services that a suite may need beside Node: where the tests look for each, and how a reader gets it. */
const services = {
  postgres: {
    url: process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test',
    enable: 'start PostgreSQL on 127.0.0.1:5432 with a database "test", or set TEST_DATABASE_URL',
  },
  redis: {
    url: process.env.TEST_REDIS_URL ?? 'redis://127.0.0.1:6379',
    enable: 'start Redis on 127.0.0.1:6379, or set TEST_REDIS_URL',
  },
  redisServer: {
    url: 'command:redis-server',
    enable: 'install Redis (in Debian the package redis-server)',
  },
  /** R is not a server but a program: its name stands where a server's address does. */
  r: {
    url: process.env.TEST_RSCRIPT ?? 'Rscript',
    enable: 'install R (in Debian the package r-base-core), or set TEST_RSCRIPT to its Rscript',
  },
  pooler: {
    url: 'command:pgbouncer',
    enable: 'install PgBouncer (in Debian the package pgbouncer, whose program lies in /usr/sbin)',
  },
  haproxy: {
    url: 'command:haproxy',
    enable: 'install HAProxy and PostgreSQL (in Debian the packages haproxy and postgresql)',
  },
  nats: {
    url: 'command:nats-server',
    enable: 'install NATS (in Debian the package nats-server, whose program lies in /usr/sbin)',
  },
  etcd: {
    url: 'command:etcd+protoc',
    enable: 'install etcd-server, golang-etcd-server-dev and protobuf-compiler (Debian)',
  },
  espeak: {
    url: 'command:espeak-ng',
    enable: 'install espeak-ng (in Debian the package espeak-ng)',
  },
  chromium: {
    url: process.env.TEST_CHROMIUM ?? 'chromium',
    enable:
      'install Chromium (in Debian the package chromium), or set TEST_CHROMIUM to its program',
  },
}

type Service = keyof typeof services

const runs = (program: string) => spawnSync(program, ['--version']).status === 0

function reachable(url: string): Promise<boolean> {
  const { hostname, port, protocol, pathname } = new URL(url)
  if (protocol === 'command:') return Promise.resolve(pathname.split('+').every(isCommand))
  return new Promise((resolve) => {
    const socket = createConnection({ host: hostname, port: Number(port), timeout: 1000 })
    const answer = (yes: boolean) => (socket.destroy(), resolve(yes))
    socket.once('connect', () => answer(true))
    socket.once('error', () => answer(false))
    socket.once('timeout', () => answer(false))
  })
}

/** Whether a program lies on the PATH. */
export const isCommand = (name: string) =>
  (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, name)))

/** Where a service answers; undefined where it does not. */
export async function urlOf(service: 'postgres' | 'redis'): Promise<string | undefined> {
  const { url } = services[service]
  return (await reachable(url)) ? url : undefined
}

/**
 * A `describe` for suites that need a service. Without it the suite is skipped with a line that says
 * how to enable it; with REQUIRE_ALL=1 a missing service fails the suite instead.
 */
export async function describeWith(service: Service, name: string, suite: (url: string) => void) {
  const { url, enable } = services[service]
  const isProgram = service === 'r' || service === 'chromium'
  const there = isProgram ? runs(url) : await reachable(url)
  if (process.env.REQUIRE_ALL || there) return describe(name, () => suite(url))
  process.stdout.write(`skipped: ${name}. To run it, ${enable}.\n`)
  describe.skipIf(true)(name, () => suite(url))
}
