import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { sql } from 'kysely'
import { Files } from '../../core/runtime/files/files.ts'
import { testApp, scriptedModel, type TestAppOptions } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { html, largePng, pdf, png, wav } from '../support/sample-files.ts'
import { openStore } from '../../core/runtime/store/store.ts'
import { kernelMigrations } from '../../core/runtime/kernel-tables.ts'
import { silent } from '../support/silent-log.ts'

const mib = 1024 * 1024
const reads = { image: ['image/*'], audio: ['audio/*'], file: ['application/pdf'] }

await onEachDatabase('files of users', ({ databaseUrl }) => {
  const app = (more: Partial<TestAppOptions> = {}) =>
    testApp({
      plugins: [],
      model: scriptedModel(
        Array.from({ length: 20 }, () => 'Well.'),
        { reads },
      ),
      ...(databaseUrl && { database: 'postgres' as const }),
      ...more,
    })

  it('are kept, and given back to their owner as something to save', async () => {
    await using server = await app()
    const user = await server.user()
    const name = encodeURIComponent('Das Dach – "neu".png')
    const posted = await user.post('/files', png(), {
      'X-Filename': name,
      'Content-Type': 'image/png',
    })
    expect(posted.status).toBe(201)
    const { fileId, sha256 } = posted.body
    expect(posted.body).toEqual({
      fileId: expect.any(String),
      mediaType: 'image/png',
      name: 'Das Dach – "neu".png',
      bytes: png().length,
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    expect(posted.headers.get('location')).toBe(`/files/${fileId}`)
    const got = await user.get(`/files/${fileId}`)
    expect(got.status).toBe(200)
    expect(Buffer.from(got.bytes)).toEqual(png())
    expect(got.headers.get('content-type')).toBe('image/png')
    expect(got.headers.get('x-content-type-options')).toBe('nosniff')
    expect(got.headers.get('content-disposition')).toBe(
      `attachment; filename*=UTF-8''${encodeURIComponent('Das Dach – "neu".png')}`,
    )
    const again = await user.get(`/files/${fileId}`, {
      headers: { 'If-None-Match': `"${sha256}"` },
    })
    expect(again.status).toBe(304)
  })

  it('do not exist for other users, nor for nobody', async () => {
    await using server = await app()
    const [one, other] = [await server.user(), await server.user()]
    const { fileId } = (await one.post('/files', png())).body
    const theirs = await other.get(`/files/${fileId}`)
    const none = await other.get(`/files/${randomUUID()}`)
    expect([theirs.status, none.status]).toEqual([404, 404])
    expect(theirs.body.message.replace(fileId, '')).toBe(
      none.body.message.replace(/[0-9a-f-]{36}/, ''),
    )
    expect((await server.get(`/files/${fileId}`)).status).toBe(401)
    expect((await server.post('/files', png())).status).toBe(401)
    // The same bytes of another user are a file of their own.
    expect((await other.post('/files', png())).body.fileId).not.toBe(fileId)
  })

  it('lie there once, however often they come', async () => {
    await using server = await app({ env: { FILES_PER_USER_MB: '1' } })
    const user = await server.user()
    const bytes = largePng(700 * 1024)
    const first = await user.post('/files', bytes, { 'X-Filename': 'a.png' })
    const second = await user.post('/files', bytes, { 'X-Filename': 'b.png' })
    expect(second.body).toEqual({ ...first.body, name: 'b.png' })
  })

  it('have a size, a number of bytes for each user, and a type that the bytes tell', async () => {
    await using server = await app({ env: { FILES_PER_USER_MB: '11' } })
    const user = await server.user()
    const post = (bytes: Uint8Array, type = 'application/octet-stream') =>
      user.post('/files', bytes, { 'Content-Type': type, 'X-Filename': 'a.bin' })
    const large = await post(largePng(10 * mib + 1))
    expect([large.status, large.body.code]).toEqual([413, 'ATTACHMENT_TOO_LARGE'])
    expect(large.body).toMatchObject({ details: { file: 'a.bin', limit: 10 * mib } })
    expect((await post(largePng(10 * mib))).status).toBe(201)
    const full = await post(largePng(2 * mib))
    expect([full.status, full.body.code]).toEqual([413, 'ATTACHMENT_TOO_LARGE'])
    expect(full.body.message).toContain('FILES_PER_USER_MB')
    expect((await post(Buffer.alloc(0))).status).toBe(400)
    for (const [bytes, type, found] of [
      [png(), 'image/jpeg', 'image/png'],
      [wav(), 'audio/wav', 'audio/wav'],
      [pdf(), 'application/pdf', 'application/pdf'],
      [html(), 'text/html', 'text/plain'],
      [Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'image/svg+xml', 'text/plain'],
      [Buffer.from('<?xml version="1.0"?><svg/>'), 'image/svg+xml', 'text/plain'],
      [Buffer.from('a;b\n1;2\n'), 'text/csv', 'text/plain'],
    ] as const)
      expect([type, (await post(bytes, type)).body.mediaType]).toEqual([type, found])
    for (const [bytes, type] of [
      [html(), 'image/png'],
      [png(), 'application/pdf'],
      [png(), 'text/plain'],
      [Buffer.from([1, 2, 3, 255, 254]), 'application/octet-stream'],
    ] as const) {
      const { status, body } = await post(bytes, type)
      expect([type, status, body.code]).toEqual([type, 415, 'ATTACHMENT_TYPE'])
    }
  })

  it('go with the last session that refers to them', async () => {
    await using server = await app()
    const user = await server.user()
    const { fileId } = (await user.post('/files', png())).body
    const body = { attachments: [{ fileId }] }
    const [one, other] = [await user.say('One', { body }), await user.say('Two', { body })]
    await user.delete(`/sessions/${one.sessionId}`)
    expect((await user.get(`/files/${fileId}`)).status).toBe(200)
    await user.delete(`/sessions/${other.sessionId}`)
    expect((await user.get(`/files/${fileId}`)).status).toBe(404)
    const { sessionId } = (await user.post('/sessions', {})).body
    const gone = await user.post(`/messages/${sessionId}`, { message: 'Three', ...body })
    expect([gone.status, gone.body.code]).toEqual([404, 'NOT_FOUND'])
    expect((await user.get(`/messages/${sessionId}`)).body.messages).toEqual([])
  })

  it('that nobody refers to go after a day, and others stay', async () => {
    const store = await openStore({ databaseUrl, log: silent })
    try {
      for (const [owner, migrations] of Object.entries(kernelMigrations))
        await store.migrate(owner, migrations)
      const files = new Files({ store, log: silent, perUserBytes: mib })
      files.close()
      const [did, sessionId] = [`did:key:${randomUUID()}`, randomUUID()]
      await sql`insert into kernel_sessions (id, did, created_at, updated_at, turns)
        values (${sessionId}, ${did}, 0, 0, 0)`.execute(store.db)
      const file = { name: 'a', type: 'image', mediaType: 'image/png', ending: 'png' } as const
      const keep = async (body: Buffer, session?: string) =>
        (await files.keep(did, [{ ...file, body }], session))[0]?.fileId ?? ''
      const [old, used, young] = [
        await keep(png(1)),
        await keep(png(2), sessionId),
        await keep(png(3)),
      ]
      const orphan = await keep(png(4), randomUUID())
      const age = (id: string) =>
        sql`update kernel_files set touched_at = touched_at - 90000000 where id = ${id}`.execute(
          store.db,
        )
      for (const id of [old, used, orphan]) await age(id)
      await files.sweep()
      const there = await Promise.all(
        [old, used, young, orphan].map(async (id) => (await files.open(did, id)) !== undefined),
      )
      expect(there).toEqual([false, true, true, false])
      // A look at a file gives it another day.
      await age(young)
      await files.find(did, [young])
      await files.sweep()
      expect(await files.open(did, young)).toBeDefined()
    } finally {
      await store.close()
    }
  })
})

describe('a page of another origin', () => {
  it('may name the file that it sends', async () => {
    await using server = await testApp({ plugins: [], model: scriptedModel([]) })
    const answer = await fetch(`${server.url}/files`, {
      method: 'OPTIONS',
      headers: {
        Origin: 'https://page.example',
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'x-filename',
      },
    })
    expect(answer.headers.get('access-control-allow-headers')).toContain('X-Filename')
  })
})
