import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { AppFolder } from '../support/command-line.ts'
import { root } from '../support/process.ts'

/** Whether this user may mount a small disk that nobody else sees. */
const mayMount = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0

const server = `import { defineApp } from 'oracle-runtime'
export default defineApp({ plugins: [] })
`

it.runIf(mayMount).each([
  ['its identity', 4, /DATA_DIR .* cannot be locked: database or disk is full/],
  ['its lock', 16, /oracle\.sqlite cannot be opened: database or disk is full/],
  [
    'some tables',
    256,
    /^Migration ".*" of kernel failed: database or disk is full\. The database kept nothing/m,
  ],
])(
  'a start on a disk that has room for %s alone says that the disk is full, and goes on where there is more',
  (_, size, sentence) => {
    using folder = new AppFolder(server)
    const migrate = `"$1" "$2" migrate; echo "code $?"`
    const ran = spawnSync(
      'unshare',
      [
        ...['-rm', 'sh', '-c'],
        `mkdir disk && mount -t tmpfs -o size=${size}k,mode=700 tmpfs disk && { ${migrate}
          mount -o remount,size=20m disk; ${migrate}; }`,
        ...['sh', process.execPath, join(root, 'cli/bin.js')],
      ],
      {
        cwd: folder.path,
        encoding: 'utf8',
        env: { PATH: process.env.PATH ?? '', DATA_DIR: 'disk', MODEL: 'demo' },
      },
    )
    expect(ran.stderr).toMatch(sentence)
    expect(ran.stderr).toMatch(/Make room on that disk\./)
    expect(ran.stderr).not.toMatch(/does not answer|backup/)
    expect(ran.stdout).toMatch(/code 1\n[^]*code 0\n$/)
  },
  60_000,
)
