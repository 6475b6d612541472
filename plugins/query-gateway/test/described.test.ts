import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import {
  FileDescriptorSetSchema,
  SourceCodeInfoSchema,
  type FileDescriptorSet,
} from '@bufbuild/protobuf/wkt'
import { expect, it, onTestFinished } from 'vitest'
import { aLedger, gatewayTo } from '../../../test/support/gateway.ts'
import { descriptorFile } from '../fixtures/ledger.ts'

/** The document of a gateway for descriptors that a test has changed. */
async function documentOf(change: (set: FileDescriptorSet) => void = () => {}) {
  const folder = mkdtempSync(join(tmpdir(), 'described-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const set = fromBinary(FileDescriptorSetSchema, readFileSync(descriptorFile))
  change(set)
  const file = join(folder, 'changed.binpb')
  writeFileSync(file, toBinary(FileDescriptorSetSchema, set))
  const app = await gatewayTo('127.0.0.1:1', { GATEWAY_DESCRIPTORS: file })
  return (await app.get('/ledger/openapi.json')).body
}

const idsOf = (document: unknown): string[] =>
  [...JSON.stringify(document).matchAll(/"operationId":"([^"]+)"/g)].map(([, id = '']) => id)

it('keeps the ids of operations when the descriptors change around them', async () => {
  const before = idsOf(await documentOf())
  expect(before).toContain('ledger.v1.EntityQuery.Params')
  expect(before).toContain('ledger.v1.TokenQuery.Simulate')
  expect(before.join()).toMatch(/ledger\.v1\.TokenQuery\.Simulate\.post\.[0-9a-f]{8}/)
  const after = idsOf(
    await documentOf(({ file: [file] }) => {
      // The services stand in another order, one is gone, and methods stand in another order.
      file?.service.reverse()
      for (const service of file?.service ?? []) service.method.reverse()
      file?.service.splice(1, 1)
    }),
  )
  expect(after.length).toBeGreaterThan(5)
  expect(before).toEqual(expect.arrayContaining(after))
})

it('says what the comments in the descriptors say, and where it is served', async () => {
  const long = 'x'.repeat(10_000)
  const document = await documentOf(({ file: [file] }) => {
    const request = file?.messageType.findIndex(({ name }) => name === 'ClaimsRequest') ?? -1
    const service = file?.service.findIndex(({ name }) => name === 'ClaimsQuery') ?? -1
    if (file)
      file.sourceCodeInfo = create(SourceCodeInfoSchema, {
        location: [
          { path: [6, service], leadingComments: ' Asks for claims.\n' },
          { path: [6, service, 2, 0], leadingComments: ' Lists claims.\n Page by page.\n' },
          { path: [4, request, 2, 1], trailingComments: ' Whose claims.\n' },
          { path: [6, service, 2, 1], leadingComments: long },
        ],
      })
  })
  expect(document.servers).toMatchObject([{ url: '/' }])
  expect(document.tags).toContainEqual({
    name: 'ledger.v1.ClaimsQuery',
    description: 'Asks for claims.',
  })
  const { get } = document.paths['/ledger/claims/claims']
  expect(get).toMatchObject({
    summary: 'Lists claims.',
    description: 'Lists claims.\nPage by page.',
  })
  expect(get.parameters).toContainEqual(
    expect.objectContaining({ name: 'agent_did', description: 'Whose claims.' }),
  )
  expect(document.paths['/ledger/claims/watch'].get.description).toHaveLength(4001)
})

it('learns by reflection at its start what the upstream does not implement, before anybody calls it', async () => {
  const set = fromBinary(FileDescriptorSetSchema, readFileSync(descriptorFile))
  const [file] = set.file
  const service = file?.service.find(({ name }) => name === 'ClaimsQuery')
  const gone = service?.method.splice(0, 1)[0]?.name
  const ledger = await aLedger({ reflection: 'v1', reflected: set.file })
  const app = await gatewayTo(ledger.address)
  const marked = async () => {
    const { paths } = (await app.get('/ledger/openapi.json')).body
    return Object.values(paths as Record<string, Record<string, any>>) // any: a document of OpenAPI
      .flatMap((item) => Object.values(item))
      .filter((one) => one['x-not-implemented'] && !one.operationId.includes('Upload'))
      .map((one) => one.operationId)
  }
  await expect.poll(marked).toContain(`ledger.v1.ClaimsQuery.${gone}`)
  expect(await marked()).not.toContain('ledger.v1.EntityQuery.Params')
})

it('shows its document as a page, on which words of the descriptors stay words', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'described-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const set = fromBinary(FileDescriptorSetSchema, readFileSync(descriptorFile))
  const [file] = set.file
  const service = file?.service.findIndex(({ name }) => name === 'ClaimsQuery') ?? -1
  if (file)
    file.sourceCodeInfo = create(SourceCodeInfoSchema, {
      location: [{ path: [6, service], leadingComments: ' <script>alert("1")</script>\n' }],
    })
  const changed = join(folder, 'changed.binpb')
  writeFileSync(changed, toBinary(FileDescriptorSetSchema, set))
  const app = await gatewayTo('127.0.0.1:1', { GATEWAY_DESCRIPTORS: changed })
  const page = await app.get('/ledger/openapi.html')
  expect(page.status).toBe(200)
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(page.body).toContain('GET /ledger/claims/claims')
  expect(page.body).toContain('ledger.v1.ClaimsQuery.Claims')
  expect(page.body).toContain('&#60;script&#62;')
  expect(page.body).not.toContain('<script')
})
