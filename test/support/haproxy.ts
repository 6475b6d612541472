import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const common = `global
  maxconn 2000
defaults
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout check 5s
`

/** Starts HAProxy with these sections behind the common ones; `onEnd` stops it. */
export function startHaproxy(sections: string, onEnd: (stop: () => Promise<void>) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-haproxy-'))
  const config = join(folder, 'haproxy.cfg')
  writeFileSync(config, common + sections)
  const proxy = spawn('haproxy', ['-q', '-db', '-f', config], { stdio: 'ignore' })
  const exited = once(proxy, 'exit')
  onEnd(async () => {
    if (proxy.exitCode === null) proxy.kill('SIGKILL')
    await exited
    rmSync(folder, { recursive: true, force: true })
  })
}
