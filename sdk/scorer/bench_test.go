package scorer

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	scorerv1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/scorer/v1"
	"github.com/pointsman/pointsman/sdk/scorer/wire"
)

const benchCandidates = 128

// benchFollower scores a table of 128 by reference, as the first-party scorers do.
func benchFollower() *stub {
	typ := newStub("queue-scorer")
	typ.follows = true
	typ.score = func(_ context.Context, _ any, req *scorerv1.ScoreRequest, out *scorerv1.ScoreResponse) error {
		n := len(req.GetListed().GetCandidates())
		if req.GetTable() != nil {
			n = benchCandidates
		}
		for i, scores := 0, Scores(out, n); i < n; i++ {
			scores[i] = float32(i) / benchCandidates
		}
		return nil
	}
	return typ
}

func benchTable() *scorerv1.TaughtTable {
	m := &scorerv1.TaughtTable{TableDigest: 7}
	for _, id := range ids(benchCandidates) {
		m.Endpoints = append(m.Endpoints, &scorerv1.TableEndpoint{EndpointId: id})
	}
	return m
}

func benchBatch(calls int) *scorerv1.ScoreStreamRequest {
	b := &scorerv1.ScoreStreamRequest{}
	for i := range calls {
		req := byTable("queue-scorer", 7)
		req.ParametersJson = []byte(`{"threshold":128}`)
		b.Calls = append(b.Calls, streamCall(uint64(i+1), req))
	}
	return b
}

// discarding is a stream that throws answers away, after encoding them if asked.
type discarding struct {
	grpc.ServerStream
	encode bool
	buffer []byte
}

func (d *discarding) Context() context.Context                    { return context.Background() }
func (d *discarding) Recv() (*scorerv1.ScoreStreamRequest, error) { return nil, io.EOF }
func (d *discarding) Send(m *scorerv1.ScoreStreamResponse) (err error) {
	if d.encode {
		d.buffer, err = proto.MarshalOptions{}.MarshalAppend(d.buffer[:0], m)
	}
	return err
}

// BenchmarkHandle is one batch without transport: what this package itself costs,
// and with decoding and encoding.
func BenchmarkHandle(b *testing.B) {
	for _, calls := range []int{1, 64} {
		batch := benchBatch(calls)
		data, err := proto.Marshal(batch)
		if err != nil {
			b.Fatal(err)
		}
		s := newServer(b, benchFollower())
		b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
			se := &session{server: s, stream: &discarding{}}
			b.ReportAllocs()
			for b.Loop() {
				if err := se.handle(batch, time.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("calls=%d/codec", calls), func(b *testing.B) {
			se := &session{server: s, stream: &discarding{encode: true}}
			b.ReportAllocs()
			for b.Loop() {
				m := &scorerv1.ScoreStreamRequest{}
				if err := proto.Unmarshal(data, m); err != nil {
					b.Fatal(err)
				}
				if err := se.handle(m, time.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTaught is a batch for a Type that does not follow the broadcast.
func BenchmarkTaught(b *testing.B) {
	typ := benchFollower()
	typ.follows = false
	se := &session{server: newServer(b, typ), stream: &discarding{}}
	if err := se.tables.teach(benchTable()); err != nil {
		b.Fatal(err)
	}
	loads := &scorerv1.TaughtLoads{TableDigest: 7}
	for i := range benchCandidates {
		loads.AgeMs = append(loads.AgeMs, int32(i))
		loads.WaitingRequestCounts = append(loads.WaitingRequestCounts, int32(i))
		loads.KvCacheUsageRatios = append(loads.KvCacheUsageRatios, 0.5)
	}
	b.Run("loads", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := se.tables.load(loads, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("calls=64", func(b *testing.B) {
		batch := benchBatch(64)
		refs := make([]scorerv1.ScoreRequest_Table, 64)
		for i := range refs {
			refs[i].Table = batch.Calls[i].Request.GetTable()
		}
		b.ReportAllocs()
		for b.Loop() {
			for i := range refs { // the references were replaced by lists
				batch.Calls[i].Request.Candidates = &refs[i]
			}
			if err := se.handle(batch, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkScoreStream is a batch over a Unix socket and back, router's side
// included.
func BenchmarkScoreStream(b *testing.B) {
	c := dialUnix(b, newServer(b, benchFollower()))
	for _, calls := range []int{1, 64} {
		b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
			r := connect(b, c)
			batch := benchBatch(calls)
			b.ReportAllocs()
			for b.Loop() {
				r.send(batch)
				for n := 0; n < calls; {
					m, err := r.stream.Recv()
					if err != nil {
						b.Fatal(err)
					}
					n += len(m.GetAnswers())
				}
			}
		})
	}
}

// BenchmarkScore is one unary call over a Unix socket.
func BenchmarkScore(b *testing.B) {
	c := dialUnix(b, newServer(b, benchFollower()))
	req := benchBatch(1).Calls[0].Request
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Score(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func dialUnix(b *testing.B, s *Server) scorerv1.ScorerServiceClient {
	b.Helper()
	l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	g := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec()))
	s.Register(g)
	go g.Serve(l)
	conn, err := grpc.NewClient("unix://"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec())))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(); g.Stop() })
	return scorerv1.NewScorerServiceClient(conn)
}
