import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A running etcd. */
export interface Etcd {
  /** The address, as host:port, of gRPC and of etcd's own HTTP gateway. */
  readonly address: string
  /** The path of the descriptors of etcd's services, for GATEWAY_DESCRIPTORS. */
  readonly descriptors: string
  readonly pid: number
  stop(): Promise<void>
}

const sources = '/usr/share/gocode/src'

/** Starts a new etcd from the Debian packages etcd-server and golang-etcd-server-dev. */
export async function startEtcd(): Promise<Etcd> {
  const folder = mkdtempSync(join(tmpdir(), 'etcd-'))
  const descriptors = join(folder, 'etcd.binpb')
  const includes = [
    join(sources, 'go.etcd.io'),
    sources,
    join(sources, 'github.com/gogo/protobuf'),
    join(sources, 'github.com/grpc-ecosystem/grpc-gateway/third_party/googleapis'),
  ]
  execFileSync('protoc', [
    ...includes.flatMap((path) => ['-I', path]),
    '--include_imports',
    `--descriptor_set_out=${descriptors}`,
    join(sources, 'go.etcd.io/etcd/etcdserver/etcdserverpb/rpc.proto'),
  ])
  const [client, peer] = [await freePort(), await freePort()]
  const url = (port: number) => `http://127.0.0.1:${port}`
  const etcd = spawn(
    'etcd',
    [
      ...['--name', 'one', '--data-dir', join(folder, 'data'), '--log-level', 'error'],
      ...['--listen-client-urls', url(client), '--advertise-client-urls', url(client)],
      ...['--listen-peer-urls', url(peer), '--initial-advertise-peer-urls', url(peer)],
      ...['--initial-cluster', `one=${url(peer)}`],
      // A test or a benchmark may lose its data, so etcd need not sync to the disk.
      '--unsafe-no-fsync',
    ],
    { stdio: 'ignore' },
  )
  const gone = new Promise<void>((resolve) => etcd.once('exit', () => resolve()))
  let failed = false
  void gone.then(() => (failed = true))
  etcd.once('error', () => (failed = true))
  for (;;) {
    if (failed) throw new Error('etcd ended before it listened')
    const healthy = await fetch(`${url(client)}/health`).then(
      (response) => response.ok,
      () => false, // not listening yet
    )
    if (healthy) break
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return {
    address: `127.0.0.1:${client}`,
    descriptors,
    pid: etcd.pid ?? 0,
    async stop() {
      etcd.kill('SIGKILL')
      await gone
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
