import { getOption, hasOption, type DescMethod, type FileRegistry } from '@bufbuild/protobuf'
import { RuntimeError } from '#core'
import { bundledRegistry } from '../descriptors/descriptors.ts'
import { parseTemplate, type Template } from './template.ts'

/** A binding of a method to an HTTP method and a path. */
export interface HttpRule {
  readonly method: DescMethod
  readonly verb: string
  /** Whether the binding is the annotation itself, and not one of its additional bindings. */
  readonly isMain: boolean
  readonly template: Template
  /** The field that the body fills: `*` for the whole message, a field's name, or empty where the request has no body. */
  readonly body: string
  /** The field that becomes the whole answer, or empty. */
  readonly responseBody: string
}

/** A decoded `google.api.HttpRule`. The message type comes from descriptors, so TypeScript cannot infer the interface. */
interface Annotation {
  readonly pattern: { readonly case?: string; readonly value?: string | CustomPattern }
  readonly body: string
  readonly responseBody: string
  readonly additionalBindings: readonly Annotation[]
}
interface CustomPattern {
  readonly kind: string
  readonly path: string
}

const httpOption = bundledRegistry.getExtension('google.api.http')!

/** The HTTP rules of all services, and the faults of the rules that cannot be served. */
export interface Rules {
  readonly rules: readonly HttpRule[]
  /** A sentence for each rule that cannot be served. */
  readonly faults: readonly string[]
  /** The services that have methods but no annotation. */
  readonly bare: readonly string[]
}

/** Reads every annotated binding of every service, additional bindings included, in the order of their declarations. */
export function readRules(registry: FileRegistry): Rules {
  const rules: HttpRule[] = []
  const faults: string[] = []
  const bare: string[] = []
  for (const service of registry) {
    if (service.kind !== 'service') continue
    const before = rules.length + faults.length
    for (const method of service.methods) {
      if (!hasOption(method, httpOption)) continue
      const first = getOption(method, httpOption) as unknown as Annotation
      for (const annotation of [first, ...first.additionalBindings]) {
        try {
          rules.push(readRule(method, annotation, annotation === first))
        } catch (thrown) {
          if (!(thrown instanceof RuntimeError)) throw thrown
          faults.push(`${service.typeName}/${method.name}: ${thrown.message}`)
        }
      }
    }
    if (service.methods.length > 0 && rules.length + faults.length === before)
      bare.push(service.typeName)
  }
  return { rules, faults, bare }
}

function readRule(
  method: DescMethod,
  { pattern, body, responseBody }: Annotation,
  isMain: boolean,
): HttpRule {
  const { value } = pattern
  if (value === undefined) throw new RuntimeError('ROUTE_INVALID', 'The binding has no path.')
  const [verb, path] =
    typeof value === 'string'
      ? [(pattern.case ?? '').toUpperCase(), value]
      : [value.kind.toUpperCase(), value.path]
  const nameless = (name: string) => !method.output.fields.some((field) => field.name === name)
  if (responseBody !== '' && nameless(responseBody))
    throw new RuntimeError('ROUTE_INVALID', `There is no field ${responseBody} in the answer.`)
  return { method, verb, isMain, template: parseTemplate(path), body, responseBody }
}
