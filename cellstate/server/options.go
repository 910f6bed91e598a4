package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/ohmcell/ohm/pkg/codec"
)

// maxMessage bounds what a caller may send, in bytes: far above any request that a store
// takes, so that its refusal, which has the numbers, is what people read.
const maxMessage = 16 << 20

// Options are what a gRPC server of this cell must be made with: they check the
// token, count requests, turn errors into codes and notice callers that are gone.
func (s *Server) Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.ForceServerCodecV2(codec.Writing()),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
	}
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	err := s.authenticate(ctx)
	var resp any
	if err == nil {
		resp, err = handle(ctx, req)
	}
	err = toStatus(err)
	s.requests.count(info.FullMethod, err)
	return resp, err
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	err := s.authenticate(stream.Context())
	if err == nil {
		err = handle(srv, stream)
	}
	err = toStatus(err)
	s.requests.count(info.FullMethod, err)
	return err
}

// authenticate demands `authorization: Bearer <token>` where a token is set. Digests
// are compared, so that the time it takes tells nothing of the token.
func (s *Server) authenticate(ctx context.Context) error {
	if s.cfg.Token == "" {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	if len(values) == 0 {
		return refuse(errCredentials, "this cell demands a token, and the request has none")
	}
	token, bearer := strings.CutPrefix(values[0], "Bearer ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.cfg.Token))
	if !bearer || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return refuse(errCredentials, "the token is not this cell's")
	}
	return nil
}
